"""Training: starting and resuming runs, the training loop, and its saved state."""
