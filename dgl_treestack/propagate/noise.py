"""Dropout masks, drawn per node of a batch by the driver, so that every engine applies the same ones."""

import torch
from torch import Tensor

from dgl_treestack.cells import Cell

Noise = dict[str, Tensor]


def draw_noise(cell: Cell, nodes: int, generator: torch.Generator) -> Noise:
    """Factors for every noise field of a cell: name -> (nodes, *shape), 0 with probability `cell.dropout`, else scaled up.

    Empty when the cell has no dropout or is in evaluation mode.
    """
    if not (cell.training and cell.dropout):
        return {}
    like = next(cell.parameters())
    keep = 1 - cell.dropout
    return {
        name: torch.empty(nodes, *shape).bernoulli_(keep, generator=generator).div_(keep).to(like)
        for name, shape in cell.noise.items()
    }
