"""What every LSTM has: a memory cell, its gates, and what they make of it."""

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, Noise, State, dropped


def add_memory(cell: Cell) -> None:
    """The field c, the gates as signals, and dropout of the candidate u."""
    width = (cell.hidden,)
    cell.fields["c"] = cell.noise["u"] = width
    cell.signals.update({"input": width, "output": width, "forget": (PER_CHILD, cell.hidden)})


def open_gates(own: Tensor, f: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """i, f, o (sigmoid) and u (tanh, with dropout), from i, o, u in own (nodes, 3, H) and f (nodes, A, H) before that."""
    i, o, f = torch.sigmoid(own[:, 0]), torch.sigmoid(own[:, 1]), torch.sigmoid(f)
    return i, f, o, dropped(torch.tanh(own[:, 2]), noise, "u")


def remember(i: Tensor, f: Tensor, o: Tensor, u: Tensor, c: Tensor) -> State:
    """c' = i * u + sum_k f_k * c_k and h' = o * tanh(c'): gates i, o and candidate u (nodes, H); f and c (nodes, A, H)."""
    new = i * u + (f * c).sum(1)
    return {"h": o * torch.tanh(new), "c": new}
