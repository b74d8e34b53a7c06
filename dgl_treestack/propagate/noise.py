"""Dropout masks, drawn per node of a batch by the driver, so that every engine applies the same ones."""

import torch
from torch import Tensor

from dgl_treestack.cells import Cell
from dgl_treestack.propagate.source import Source, feature


class Noise(dict[str, Tensor]):
    """Factors by field, (N, *shape). per_subtree: equal subtrees have equal ones, so their states are equal too."""

    per_subtree = False


def draw_noise(cell: Cell, source: Source, generator: torch.Generator, *, per_subtree: bool = False) -> Noise:
    """Factors for every noise field of a cell: name -> (N, *shape), 0 with probability `cell.dropout`, else scaled up.

    Empty when the cell has no dropout or is in evaluation mode. They are drawn for every node, or for every distinct subtree
    of the batch, by feature `subtree`.
    """
    noise = Noise()
    if not (cell.training and cell.dropout):
        return noise
    like, keep = next(cell.parameters()), 1 - cell.dropout
    noise.per_subtree, place = per_subtree, None
    count = len(feature(source, "op"))
    if per_subtree:
        distinct, place = torch.unique(feature(source, "subtree"), return_inverse=True)
        count = len(distinct)
    for name, shape in cell.noise.items():
        factors = torch.empty(count, *shape).bernoulli_(keep, generator=generator).div_(keep)
        noise[name] = (factors if place is None else factors[place]).to(like)
    return noise
