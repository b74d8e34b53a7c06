"""What is in a batch, and what an equation looks like."""
