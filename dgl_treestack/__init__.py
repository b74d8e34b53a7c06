"""Recursive neural networks with differentiable stacks, on batched DGL graphs."""

__version__ = "0.1.0"
