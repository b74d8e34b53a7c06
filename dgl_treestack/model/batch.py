"""Batches: trees with the nodes whose outputs a task wants, and their targets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.forest import Forest, Source
from dgl_treestack.data.wellformed import check, check_one_root, uncompiled
from dgl_treestack.errors import ConfigurationError, GraphError, unknown
from dgl_treestack.expression.operators import Signature
from dgl_treestack.propagate import Plans
from dgl_treestack.tasks import Task


@dataclass(eq=False)
class Batch:
    """Trees with the node of every output (B,), its first two children (B, 2) or -1, its target (B,) and its task (B,).

    There is one output per tree, at its root, unless the task wants one per node.
    trees: the input of `propagate`: a forest, or a graph if the user passed one or accessed `graph`; the fast engines need no
    graph. plans: of this batch and of those built in the same group.
    """

    trees: Source
    roots: Tensor
    sides: Tensor
    targets: Tensor
    task: np.ndarray
    plans: Plans

    @classmethod
    @uncompiled
    def of_graph(
        cls, batch: DGLGraph, heads: Sequence[Task], task: str | None, signature: Signature, tokens: int | None = None
    ) -> "Batch":
        """Return a batched graph as a batch with unknown targets (NaN). task: of all trees; required for several heads.

        There is an output per tree, in the order of the roots, or per node for a task at nodes.

        Raises ConfigurationError for an unknown task, GraphError for a graph that is not well formed, a tree with several
        roots, and trees that the task cannot read: only a task that compares sides takes equations, and nothing else.
        """
        names = [head.name for head in heads]
        if task is None and len(names) > 1:
            raise ConfigurationError(f"The model has the tasks {', '.join(names)}. Say which one a graph is for, by task=...")
        if task is not None and task not in names:
            raise ConfigurationError("Not a task of the model: " + unknown("task", task, names))
        head_index = 0 if task is None else names.index(task)
        head = heads[head_index]
        nodes = check(batch, signature, tokens)
        check_one_root(batch)
        roots = graph.roots(batch).cpu().long()
        is_equation = nodes.op[roots.numpy()] == signature.root_index
        for tree in np.flatnonzero(is_equation != head.compares_sides)[:1]:
            where = f"Tree {tree} of the batch, with root {int(roots[tree])},"
            if head.compares_sides:
                raise GraphError(f"{where} is no equation, whose two sides the task {head.name!r} compares.")
            raise GraphError(f"{where} is an equation, whose root has no state; the task {head.name!r} reads one. Pass a side.")
        if head.at_nodes:
            roots = torch.arange(batch.num_nodes())
        children = nodes.children[roots.numpy()]
        arity = (children >= 0).sum(1)
        for tree in np.flatnonzero((arity != 2) & head.compares_sides)[:1]:
            raise GraphError(f"The equation with root {int(roots[tree])} has {arity[tree]} sides; {head.name!r} compares two.")
        sides = np.full((len(roots), 2), -1, dtype=np.int64)
        sides[:, : children.shape[1]] = children[:, :2]
        targets = torch.full((len(roots),), float("nan"), dtype=torch.float64)
        return cls(batch, roots, torch.from_numpy(sides), targets, np.full(len(roots), head_index), Plans(signature))

    @property
    def graph(self) -> DGLGraph:
        """The trees as one batched graph. After the first access it is also `trees`, because the user may change it."""
        if isinstance(self.trees, Forest):
            self.trees = graph.build(self.trees)
        return self.trees
