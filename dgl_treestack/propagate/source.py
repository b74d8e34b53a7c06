"""What is propagated: a batched graph, or the forest that one would be made of, which takes longer than a plan."""

from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.forest import COLUMNS, Forest
from dgl_treestack.graph import child_table

Source: TypeAlias = "DGLGraph | Forest"


class Columns(NamedTuple):
    """All nodes: op, token, number (N,) as in a `Forest`; children (N, A) by slot, -1 where there is none.

    turn, subtree: (N,) as in a `Forest`, or None where nobody knows.
    """

    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    children: np.ndarray
    turn: np.ndarray | None
    subtree: np.ndarray | None


def columns(source: Source) -> Columns:
    """Of a graph as it is now, since its features may be changed."""
    if isinstance(source, Forest):
        return Columns(source.op, source.token, source.number, source.child_table(), source.turn, source.subtree)
    op, token, number = (source.ndata[name].cpu().numpy() for name in ("op", "token", "number"))
    turn, subtree = (source.ndata[name].cpu().numpy() if name in source.ndata else None for name in ("turn", "subtree"))
    return Columns(op, token, number, child_table(source).cpu().numpy(), turn, subtree)


def feature(source: Source, name: str) -> Tensor:
    """(N, ...) of all nodes. Raises ConfigurationError where there is none."""
    known = COLUMNS if isinstance(source, Forest) else source.ndata
    if name not in known:
        raise ConfigurationError(f"Nodes have no feature {name!r} here. Put it on the graph: graph.ndata[{name!r}] = tensor.")
    return torch.from_numpy(getattr(source, name)) if isinstance(source, Forest) else source.ndata[name]
