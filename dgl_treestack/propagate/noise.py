"""Dropout masks, drawn per node of a batch by the driver, so that every engine applies the same ones."""

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.cells import Cell
from dgl_treestack.data.forest import Source, columns, in_order_of_appearance, size
from dgl_treestack.expression.operators import MATH, Signature


class Noise(dict[str, Tensor]):
    """Factors by field, (N, *shape). subtree: (N,) numbers of subtrees if equal subtrees have equal factors, and so equal
    states; else None."""

    subtree: np.ndarray | None = None


def draw_noise(
    cell: Cell, source: Source, generator: torch.Generator, *, per_subtree: bool = False, signature: Signature = MATH
) -> Noise:
    """Factors for every noise field of a cell: name -> (N, *shape), 0 with probability `cell.dropout`, else scaled up.

    Empty when the cell has no dropout or is in evaluation mode. They are drawn for every node, or for every distinct subtree
    of the batch. Raises GraphError for a graph that is not well formed, if subtrees are asked for.
    """
    noise = Noise()
    if not (cell.training and cell.dropout):
        return noise
    like, keep = next(cell.parameters()), 1 - cell.dropout
    count, row = size(source), None
    if per_subtree:
        noise.subtree = in_order_of_appearance(columns(source, signature, cell.tokens).subtree)
        count, row = int(noise.subtree.max(initial=-1)) + 1, torch.from_numpy(noise.subtree)
    for name, shape in cell.noise.items():
        factors = torch.empty(count, *shape).bernoulli_(keep, generator=generator).div_(keep)
        noise[name] = (factors if row is None else factors[row]).to(like)
    return noise
