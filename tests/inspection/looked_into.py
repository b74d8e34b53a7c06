"""Graphs that tests of inspection look into."""

import io

import numpy as np
import torch
from every_cell import make

from dgl_treestack.data import graph
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.expression import Equation
from dgl_treestack.expression.operators import MATH
from dgl_treestack.inspection.table import describe
from dgl_treestack.propagate import propagate

VOCABULARY = PRESETS["released"]
TEXTS = ["sin(x)**2 + cos(x)**2 = 1", "x + 0 = y", "2*x = x + x"]
SIGNALS = ["push", "forget"]


def batch_of(trees, name="tree_smu"):
    """A batch with states and signals."""
    batch = graph.from_expressions(trees, VOCABULARY)
    cell = make(name, stack_size=3)
    with torch.no_grad():
        propagate(batch, cell, signals=SIGNALS)
    return batch


def equations():
    return [Equation.parse(text) for text in TEXTS]


def shared(same=False):
    """sin(x) + cos(x) over one x; with `same`, x + x over it."""
    op = [MATH.index["Add"], -1] if same else [MATH.index["Add"], MATH.index["sin"], MATH.index["cos"], -1]
    ends = ([1, 1], [0, 0], [0, 1]) if same else ([1, 2, 3, 3], [0, 0, 1, 2], [0, 1, 0, 0])
    nodes = {"op": op, "token": [-1] * (len(op) - 1) + [0], "number": [0.0] * len(op)}
    return graph.from_columns({k: np.array(v) for k, v in nodes.items()}, tuple(map(np.array, ends)))


def printed(batch, **options):
    buffer = io.StringIO()
    described = describe(batch, file=buffer, **options)
    return buffer.getvalue(), described
