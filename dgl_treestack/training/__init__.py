"""Training: the loop, the optimizer, checkpoints, signals, random streams, and starting and resuming runs."""
