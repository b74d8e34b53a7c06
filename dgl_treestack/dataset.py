"""Examples made ready for a model, and batches of them: trees with what is wanted of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import graph
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.forest import Forest
from dgl_treestack.formats import Example
from dgl_treestack.operators import Signature
from dgl_treestack.propagate import Plans, Source
from dgl_treestack.tasks import Item

MOST_KEPT = 500_000  # nodes of a data set whose batches are kept: some 60 MB


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
        forest, sides = self.forest.select(chosen), self.forest.sides[chosen]
        starts = forest.offsets[:-1]
        return Batch(
            forest,
            torch.from_numpy(starts),
            torch.from_numpy(np.where(sides < 0, -1, sides + starts[:, None])),
            torch.from_numpy(self.targets[chosen]).to(device, non_blocking=True),
            self.task[chosen],
        )

    def batches(self, size: int, device: torch.device | str = "cpu") -> Iterator["Batch"]:
        """All examples in order. Those of a small data set are made once and kept, with their plans."""
        if (size, str(device)) in self.kept:
            yield from self.kept[size, str(device)]
            return
        made = []
        for start in range(0, len(self), size):
            made.append(self.batch(np.arange(start, min(start + size, len(self))), device))
            yield made[-1]
            if len(self.forest.op) > MOST_KEPT:
                made.clear()
        if made:
            self.kept[size, str(device)] = made


@dataclass(frozen=True, eq=False)
class Batch:
    """Trees with the root (B,) of each, the root's first two children (B, 2) or -1, target (B,) and task (B,).

    `graph`, the trees as one batched graph, is made when somebody asks for it: the fast engines do not.
    """

    forest: Forest
    roots: Tensor
    sides: Tensor
    targets: Tensor
    task: np.ndarray
    _plans: list[Plans] = field(default_factory=list)

    @cached_property
    def graph(self) -> DGLGraph:
        return graph.build(self.forest)

    @property
    def source(self) -> Source:
        """What is to be propagated: the graph, of which features may have been changed, if there is one by now."""
        return vars(self).get("graph", self.forest)

    def plans(self, signature: Signature) -> Plans:
        """The plans, made once."""
        if not self._plans:
            self._plans.append(Plans(signature))
        return self._plans[0]
