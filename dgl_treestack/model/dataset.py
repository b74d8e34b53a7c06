"""Examples made ready for a model, and batches of them: trees with what is wanted of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.columns import Source
from dgl_treestack.data.forest import NO_OPERATOR, Forest
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import check, check_one_root
from dgl_treestack.errors import ConfigurationError, DataError, GraphError, VocabularyError, unknown
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.propagate import Plans
from dgl_treestack.tasks import Item, Task

MOST_KEPT = 500_000  # nodes of a data set whose batches are kept: some 60 MB
AT_ONCE = 8  # batches that are made one after the other before the first is used


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples made ready for one model: what is propagated, what is wanted, and by which task, per example."""

    examples: Sequence[Example]
    items: Sequence[Item]
    forest: Forest
    targets: np.ndarray
    task: np.ndarray
    kept: dict[tuple[int, str], list["Batch"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, chosen: np.ndarray, device: torch.device | str = "cpu") -> "Batch":
        """The chosen examples as one batch on the CPU, what is wanted of them on the device."""
        return self._batch(chosen, self.forest.select(chosen), Plans(self.forest.signature), device)

    def in_order(self, order: np.ndarray, size: int, device: torch.device | str = "cpu") -> Iterator["Batch"]:
        """The examples in the given order, so many at a time. Several batches are made at once, and so are their plans: after
        a step of training hardly anything of what makes them is left in the caches of a processor."""
        chosen = [order[start : start + size] for start in range(0, len(order), size)]
        for start in range(0, len(chosen), AT_ONCE):
            group = chosen[start : start + AT_ONCE]
            forests = [self.forest.select(own) for own in group]
            plans = Plans(self.forest.signature, forests)
            yield from [self._batch(own, forest, plans, device) for own, forest in zip(group, forests, strict=True)]

    def _batch(self, chosen: np.ndarray, forest: Forest, plans: Plans, device: torch.device | str) -> "Batch":
        sides, starts = self.forest.sides[chosen], forest.offsets[:-1]
        return Batch(
            forest,
            torch.from_numpy(starts),
            torch.from_numpy(np.where(sides < 0, -1, sides + starts[:, None])),
            torch.from_numpy(self.targets[chosen]).to(device, non_blocking=True),
            self.task[chosen],
            plans,
        )

    def batches(self, size: int, device: torch.device | str = "cpu") -> Iterator["Batch"]:
        """All examples in order. Those of a small data set are made once and kept, with their plans."""
        if (size, str(device)) in self.kept:
            yield from self.kept[size, str(device)]
            return
        made = []
        for batch in self.in_order(np.arange(len(self)), size, device):
            made.append(batch)
            yield batch
            if len(self.forest.op) > MOST_KEPT:
                made.clear()
        if made:
            self.kept[size, str(device)] = made


def prepare(
    examples: Sequence[Example],
    heads: Sequence[Task],
    vocabulary: Vocabulary,
    signature: Signature = MATH,
    task_name: str | None = None,
) -> Dataset:
    """Examples as data for tasks, each for the first that accepts it, or all for the one that is named.

    Raises DataError when no task accepts an example, ConfigurationError when there is no such task, VocabularyError for an
    unknown leaf.
    """
    names = [head.name for head in heads]
    if task_name is not None and task_name not in names:
        raise ConfigurationError("The model was not made for it: " + unknown("task", task_name, names))
    task = [_route(example, heads) if task_name is None else names.index(task_name) for example in examples]
    items = [heads[i].prepare(example) for i, example in zip(task, examples, strict=True)]
    try:
        forest = Forest.build([item.tree for item in items], vocabulary, signature)
    except VocabularyError:
        _blame(examples, vocabulary)
        raise
    targets = np.array([item.target for item in items], dtype=np.float64)
    return Dataset(examples, items, forest, targets, np.array(task, dtype=np.int64))


def _route(example: Example, heads: Sequence[Task]) -> int:
    for i, head in enumerate(heads):
        if head.accepts(example):
            return i
    tasks_of_model = ", ".join(head.name for head in heads)
    raise DataError(f"{example.equation} fits none of the model's tasks ({tasks_of_model}).", example.source or None)


def _blame(examples: Sequence[Example], vocabulary: Vocabulary) -> None:
    """Raise the vocabulary's error for the first example that it cannot read, with file and line where known."""
    for example in examples:
        try:
            for _, kind, text in example.equation.leaves():
                vocabulary.row(kind, text)
        except VocabularyError as error:
            raise DataError(str(error), example.source or None) from None


@dataclass(frozen=True, eq=False)
class Batch:
    """Trees with the root (B,) of each, the root's first two children (B, 2) or -1, target (B,) and task (B,).

    trees: a forest, or somebody's graph. plans: its own among those of the batches that were made with it.
    `graph`, the trees as one batched graph, is made when somebody asks for it: the fast engines do not.
    """

    trees: Source
    roots: Tensor
    sides: Tensor
    targets: Tensor
    task: np.ndarray
    plans: Plans

    @classmethod
    def of_graph(
        cls, batch: DGLGraph, heads: Sequence[Task], task: str | None, signature: Signature, tokens: int | None = None
    ) -> "Batch":
        """A batched graph, of whose targets nothing is known (NaN). task: of all trees, named where there are several.

        Raises ConfigurationError for an unknown task, GraphError for a graph that is not well formed, a tree with several
        roots, and trees that are not what the task asks for.
        """
        names = [head.name for head in heads]
        if task is None and len(names) > 1:
            raise ConfigurationError(f"The model has the tasks {', '.join(names)}. Say which one a graph is for: task=...")
        if task is not None and task not in names:
            raise ConfigurationError("The model was not made for it: " + unknown("task", task, names))
        number = 0 if task is None else names.index(task)
        nodes = check(batch, signature, tokens)
        check_one_root(batch)
        roots = graph.roots(batch).cpu().long()
        children = nodes.children[roots.numpy()]
        _check_roots(nodes.op[roots.numpy()], (children >= 0).sum(1), roots, heads[number], signature)
        sides = np.full((len(roots), 2), -1, dtype=np.int64)
        sides[:, : children.shape[1]] = children[:, :2]
        targets = torch.full((len(roots),), float("nan"), dtype=torch.float64)
        return cls(batch, roots, torch.from_numpy(sides), targets, np.full(len(roots), number), Plans(signature))

    @cached_property
    def graph(self) -> DGLGraph:
        return graph.build(self.trees) if isinstance(self.trees, Forest) else self.trees

    @property
    def source(self) -> Source:
        """What is to be propagated: the graph, which may have been changed, if there is one by now."""
        return vars(self).get("graph", self.trees)


def _check_roots(op: np.ndarray, arity: np.ndarray, roots: Tensor, head: Task, signature: Signature) -> None:
    """Raise GraphError unless all trees are equations, for a task that compares their sides, or none is, for another.

    op, arity: (B,) operators of roots, and how many children they have.
    """
    is_equation = op == (signature.index[signature.root] if signature.root else NO_OPERATOR - 1)
    for tree in np.flatnonzero(is_equation != head.compares_sides)[:1]:
        where = f"Tree {tree} of the batch, with root {int(roots[tree])},"
        if head.compares_sides:
            raise GraphError(f"{where} is no equation, whose two sides the task {head.name!r} compares.")
        raise GraphError(f"{where} is an equation, whose root has no state, which the task {head.name!r} reads. Give a side.")
    for tree in np.flatnonzero((arity != 2) & head.compares_sides)[:1]:
        raise GraphError(f"The equation with root {int(roots[tree])} has {arity[tree]} sides; {head.name!r} compares two.")
