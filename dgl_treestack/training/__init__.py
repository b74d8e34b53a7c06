"""Training: starting and resuming runs, the loop, and the state that a resumed run goes on from."""
