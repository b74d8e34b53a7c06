"""How many pairs are wanted of each fold and depth, and how many there are."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dgl_treestack.generate.pairs import Pair

NUMERIC_SHARE = 1 / 7  # of equations without variables, from depth 3 on


@dataclass
class Quota:
    """The pairs of one fold and depth. It closes when full, or when `patience` attempts in a row brought none."""

    fold: str
    depth: int
    wanted: int
    patience: int
    pairs: list[Pair] = field(default_factory=list)
    misses: int = 0
    numeric: int = 0

    @property
    def is_open(self) -> bool:
        return len(self.pairs) < self.wanted and self.misses < self.patience

    @property
    def takes_numeric(self) -> bool:
        """Whether another equation without variables fits. Below depth 3 there is hardly anything else."""
        return self.depth < 3 or NUMERIC_SHARE * self.wanted > self.numeric

    def add(self, pair: Pair | None) -> None:
        """Take the result of an attempt."""
        if pair is None:
            self.misses += 1
            return
        self.pairs.append(pair)
        self.misses = 0
        self.numeric += "Symbol" not in pair.true.names


def pick_quota(quotas: Iterable[Quota], fold: str, depth: int, rng: np.random.Generator) -> Quota | None:
    """An open quota of the fold, of at least the given depth, drawn evenly."""
    fitting = [quota for quota in quotas if quota.fold == fold and quota.is_open and quota.depth >= depth]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None
