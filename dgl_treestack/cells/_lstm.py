"""What every LSTM ends in."""

import torch
from torch import Tensor

from dgl_treestack.cells._step import State


def remember(i: Tensor, f: Tensor, o: Tensor, u: Tensor, c: Tensor) -> State:
    """c' = i * u + sum_k f_k * c_k and h' = o * tanh(c'): gates i, o and candidate u (nodes, H); f and c (nodes, A, H)."""
    new = i * u + (f * c).sum(1)
    return {"h": o * torch.tanh(new), "c": new}
