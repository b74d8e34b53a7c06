"""Training: configuration, the loop, checkpoints, run folders, and the authors' weights as a run."""
