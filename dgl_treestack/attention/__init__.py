"""Transformers over equations: positions along the sequence, or in the tree."""
