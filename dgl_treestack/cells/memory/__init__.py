"""Memories of cells as pure functions of tensors."""
