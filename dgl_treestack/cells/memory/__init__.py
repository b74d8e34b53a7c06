"""Memories of cells as pure functions of tensors: a stack and a queue."""
