"""Trees prepared for a model, with the nodes whose outputs a task wants and their targets: data sets, and batches of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data import graph
from dgl_treestack.data.forest import Forest, Source, in_order_of_appearance, uncompiled
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import check, check_one_root
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import ConfigurationError, DataError, GraphError, VocabularyError, unknown
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import Signature
from dgl_treestack.propagate import Plans
from dgl_treestack.tasks import Item, Task

MOST_KEPT = 500_000  # maximum nodes of a data set whose batches are cached: some 60 MB
AT_ONCE = 8  # batches of a group that is built before its first batch is used


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

        There is an output per tree, in the order of the roots, or per node for a task at nodes. Raises ConfigurationError for
        an unknown task, GraphError for a graph that is not well formed, and for trees that the task cannot read: only a task
        that compares sides takes equations, and nothing else.
        """
        head_index = index_of_task(heads, task)
        head = heads[head_index]
        nodes = check(batch, signature, tokens)
        check_one_root(batch)
        roots = graph.roots(batch).cpu().long()
        is_equation = nodes.op[roots.numpy()] == signature.root_index
        arity = (nodes.children[roots.numpy()] >= 0).sum(1)
        for wrong, fault in (
            (~is_equation & head.compares_sides, f"is no equation, whose two sides the task {head.name!r} compares"),
            (
                is_equation & (not head.compares_sides),
                f"is an equation, whose root has no state; the task {head.name!r} reads one. Pass a side",
            ),
            ((arity != 2) & head.compares_sides, f"has not the two sides that the task {head.name!r} compares"),
        ):
            for tree in np.flatnonzero(wrong)[:1]:
                raise GraphError(f"Tree {tree} of the batch, with root {int(roots[tree])}, {fault}.")
        if head.at_nodes:
            roots = torch.arange(batch.num_nodes())
        children = nodes.children[roots.numpy()]
        sides = np.full((len(roots), 2), -1, dtype=np.int64)
        sides[:, : children.shape[1]] = children[:, :2]
        targets = torch.full((len(roots),), float("nan"), dtype=torch.float64)
        return cls(batch, roots, torch.from_numpy(sides), targets, np.full(len(roots), head_index), Plans(signature))

    @property
    def graph(self) -> DGLGraph:
        """The trees as one batched graph. After the first access it is also `trees`, because the user may change it."""
        # on request: it took 0.55 ms of every step, and training reads none
        if isinstance(self.trees, Forest):
            self.trees = graph.build(self.trees)
        return self.trees


def measure(name: str, tree: Expression, node: int = 0) -> int:
    """The depth of a node's subtree, its size in nodes, or its number of operators; for a pair, size and number are those of
    the larger tree."""
    if name == "depth":
        return tree.heights[node]
    is_pair = tree.names[node] == tree.signature.root
    spans = [(top, tree.ends[top]) for top in (tree.children(node) if is_pair else (node,))]
    if name == "size":
        return max(end - start for start, end in spans)
    return max(tree.operators_before[end] - tree.operators_before[start] for start, end in spans)


@dataclass(frozen=True, eq=False)
class Texts(Sequence[str]):
    """Texts in memory-mapped bytes. offsets: (G + 1,) text i is content[offsets[i] : offsets[i + 1]]."""

    offsets: np.ndarray
    content: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> Any:
        chosen = range(len(self))[i]
        return self.content[self.offsets[chosen] : self.offsets[chosen + 1]].tobytes().decode()


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """G trees prepared for one model, which has R outputs for them: one per tree, or one per node with a target.

    The columns are in memory, or mapped from files, see `model.stored_set`.
    forest: the trees. offsets: (G + 1,) the outputs of tree g are offsets[g] : offsets[g + 1].
    nodes: (R,) the node of every output, and sides (R, 2) its first two children or -1, as indices within the tree; to find
    these for every batch would double the time to build it.
    targets: (R,). task: (R,) index of the model's task.
    ids: (G,) of the examples. groups: (G,) the same number for the examples of a pair, in the order of the first examples.
    examples: (G,), and items: (G,) their trees and targets; empty if the columns are those of files.
    description: how the files were made, with the ranges of measures; empty in memory.
    cache: batches by their size, device and processes, filled by `batches`.
    """

    forest: Forest
    offsets: np.ndarray
    nodes: np.ndarray
    sides: np.ndarray
    targets: np.ndarray
    task: np.ndarray
    ids: Sequence[str]
    groups: np.ndarray
    examples: Sequence[Example] = ()
    items: Sequence[Item] = ()
    description: Mapping[str, Any] = field(default_factory=dict)
    cache: dict[tuple[int, str, World], list[Batch]] = field(default_factory=dict)

    @property
    def example_of_output(self) -> np.ndarray:
        """(R,) index of the example of every output."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def positions_of_outputs(self, positions: np.ndarray) -> Tensor:
        """Return, for every output of the examples at some positions, the position of its example."""
        counts = self.offsets[1:][positions] - self.offsets[:-1][positions]
        return torch.from_numpy(positions if (counts == 1).all() else np.repeat(positions, counts))

    def measured(self, group_by: str) -> tuple[float, float] | None:
        """Return the smallest and the largest measure (`measure`) of the outputs, None without any."""
        if self.description:
            low, high = self.description["measured"][group_by]
            return low, high
        outputs = zip(self.example_of_output.tolist(), self.nodes.tolist(), strict=True)
        measures = [measure(group_by, self.examples[i].equation, node) for i, node in outputs]
        return (min(measures), max(measures)) if measures else None

    def with_targets(self) -> "Dataset":
        """Return the data set in memory of the outputs whose targets are known, and the examples that have any."""
        has_target = np.isfinite(self.targets)
        if has_target.all():
            return self
        chosen, counts = np.unique(self.example_of_output[has_target], return_counts=True)
        of_outputs: dict[str, Any] = {name: getattr(self, name)[has_target] for name in ("nodes", "sides", "targets", "task")}
        of_examples: dict[str, Any] = {name: [getattr(self, name)[i] for i in chosen] for name in ("ids", "examples", "items")}
        groups, offsets = in_order_of_appearance(self.groups[chosen]), np.append(0, counts.cumsum())
        return Dataset(forest=self.forest.select(chosen), offsets=offsets, groups=groups, **of_outputs, **of_examples)

    def contents(self) -> Iterator[bytes]:
        """Yield bytes that are the same for equal trees and targets."""
        if self.description:
            yield json.dumps(self.description["made from"]).encode()
            return
        columns = self.forest.offsets, self.forest.op, self.forest.token, self.targets
        yield from (column.tobytes() for column in columns)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def batch(self, chosen: np.ndarray, device: torch.device | str = "cpu") -> Batch:
        """Return the chosen examples as one batch: trees on the CPU, targets on the device."""
        return next(self.batches_of([chosen], device))

    def in_order(self, order: np.ndarray, size: int, device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Yield batches of `size` examples in the given order."""
        return self.batches_of([order[start : start + size] for start in range(0, len(order), size)], device)

    def batches_of(self, chosen: Sequence[np.ndarray], device: torch.device | str = "cpu") -> Iterator[Batch]:
        """Yield a batch for every array of indices of examples: trees on the CPU, targets on the device.

        Batches and their plans are built in groups, because a training step evicts the code and data of building from the
        processor's caches.
        """
        for start in range(0, len(chosen), AT_ONCE):
            group = chosen[start : start + AT_ONCE]
            forests = [self.forest.select(trees) for trees in group]
            plans, batches = Plans(self.forest.signature, forests), []
            for trees, forest in zip(group, forests, strict=True):
                counts = self.offsets[1:][trees] - self.offsets[:-1][trees]
                first_of_tree = np.cumsum(counts) - counts
                outputs = np.arange(counts.sum()) + np.repeat(self.offsets[:-1][trees] - first_of_tree, counts)
                starts, children = np.repeat(forest.offsets[:-1], counts), self.sides[outputs]
                roots = torch.from_numpy(starts + self.nodes[outputs])
                sides = torch.from_numpy(np.where(children < 0, -1, children + starts[:, None]))
                targets = torch.from_numpy(self.targets[outputs]).to(device, non_blocking=True)
                batches.append(Batch(forest, roots, sides, targets, self.task[outputs], plans))
            yield from batches

    def batches(self, size: int, device: torch.device | str = "cpu", world: World = ALONE) -> Iterator[Batch]:
        """Yield all examples in order, or this process's part. The batches of a small data set are cached with their plans."""
        key = size, str(device), world
        if key in self.cache:
            yield from self.cache[key]
            return
        batches = []
        for batch in self.in_order(np.arange(len(self))[world.part(len(self))], size, device):
            batches.append(batch)
            yield batch
            if self.forest.offsets[-1] > MOST_KEPT:
                batches.clear()
        if batches:
            self.cache[key] = batches


def index_of_task(heads: Sequence[Task], name: str | None) -> int:
    """Return the index of a task among the heads of a model; None is the only one. Raises ConfigurationError."""
    names = [head.name for head in heads]
    if name is None and len(names) == 1:
        return 0
    if name is None or name not in names:
        which = f"The model has the tasks {', '.join(names)}. Say which one a graph is for, by task=..."
        raise ConfigurationError(which if name is None else f"Not a task of the model: {unknown('task', name, names)}")
    return names.index(name)


def prepare(
    examples: Sequence[Example],
    heads: Sequence[Task],
    vocabulary: Vocabulary,
    signature: Signature,
    task_name: str | None = None,
) -> Dataset:
    """Prepare every example for the first task that accepts it, or all examples for the task `task_name`.

    Raises DataError if no task accepts an example, ConfigurationError for a task that is not among the heads, VocabularyError
    for an unknown leaf.
    """
    index_of_all = None if task_name is None else index_of_task(heads, task_name)
    task: list[int] = []
    for example in examples:
        accepting = (i for i, head in enumerate(heads) if head.accepts(example))
        index = next(accepting, None) if index_of_all is None else index_of_all
        if index is None:
            kind = "a pair of trees" if isinstance(example.equation, Equation) else "a single tree"
            names = ", ".join(head.name for head in heads)
            message = f"{example.equation}, {kind}, fits none of the model's tasks ({names}). Give one that accepts it."
            raise DataError(message, example.source or None)
        task.append(index)
    items = [heads[i].prepare(example) for i, example in zip(task, examples, strict=True)]
    try:
        forest = Forest.build([item.tree for item in items], vocabulary, signature)
    except VocabularyError:
        for example in examples:  # name the file and line of the first unknown leaf
            try:
                for _, kind, text in example.equation.leaves():
                    vocabulary.row(kind, text)
            except VocabularyError as error:
                raise DataError(str(error), example.source or None) from None
        raise
    targets = [item.target if isinstance(item.target, Mapping) else {0: item.target} for item in items]
    counts = [len(target_of_node) for target_of_node in targets]
    outputs = [(item.tree, node) for item, target_of_node in zip(items, targets, strict=True) for node in target_of_node]
    number_of_pair: dict[str, int] = {}
    pairs = (example.pair or f"/{i}" for i, example in enumerate(examples))
    return Dataset(
        forest=forest,
        offsets=np.append(0, np.cumsum(counts, dtype=np.int64)),
        nodes=np.array([node for _, node in outputs], dtype=np.int64),
        sides=np.array([(*tree.children(node), -1, -1)[:2] for tree, node in outputs], dtype=np.int64).reshape(-1, 2),
        targets=np.array([target for target_of_node in targets for target in target_of_node.values()], dtype=np.float64),
        task=np.repeat(np.array(task, dtype=np.int64), counts),
        ids=[example.id for example in examples],
        groups=np.array([number_of_pair.setdefault(name, len(number_of_pair)) for name in pairs], dtype=np.int64),
        examples=examples,
        items=items,
    )
