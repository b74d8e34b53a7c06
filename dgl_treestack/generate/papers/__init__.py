"""The papers' own way of making equations, for comparison: unverified growth by dictionary, single mutations, their labels."""
