"""The part of a batch that one process of a run computes."""

from dataclasses import dataclass

import numpy as np

from dgl_treestack.distributed import World
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.signals import Distinct


@dataclass(frozen=True, eq=False)
class Share:
    """The share of a batch; alone, a process computes all of it.

    positions: of its examples in the training set. fraction: of the batch's outputs; 0 if there are more processes than trees,
    where one tree is computed and not counted. rank_of_tree: (G,) who computes each tree of the batch, None for one process.
    """

    positions: np.ndarray
    fraction: float
    rank: int = 0
    rank_of_tree: np.ndarray | None = None

    @classmethod
    def of(cls, dataset: Dataset, positions: np.ndarray, world: World) -> "Share":
        """Return this process's share of a batch. positions: (G,) of the batch's examples in the training set."""
        if world.size == 1:
            return cls(positions, 1.0)
        ranks = world.shares(dataset.forest.sizes[positions])
        outputs, is_mine = dataset.offsets[positions + 1] - dataset.offsets[positions], ranks == world.rank
        if not is_mine.any():
            return cls(positions[:1], 0.0, world.rank, ranks)
        return cls(positions[is_mine], float(outputs[is_mine].sum() / outputs.sum()), world.rank, ranks)

    def subtrees(self, dataset: Dataset, positions: np.ndarray) -> Distinct | None:
        """Return the distinct subtrees of the batch, each computed with the first tree that has it; None for one process."""
        if self.rank_of_tree is None:
            return None
        trees = dataset.forest.select(positions)
        subtree, node = np.unique(trees.subtree, return_index=True)
        tree_of_node = np.repeat(np.arange(len(trees)), trees.sizes)
        return Distinct(subtree, trees.height[node], self.rank_of_tree[tree_of_node[node]] == self.rank)
