"""The papers' method of generating equations, for comparison: unverified growth by dictionary, single mutations, labels."""
