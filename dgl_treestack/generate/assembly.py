"""From raw pairs to a data set without duplicates, leaks between folds, or local features that predict the label.

The pairs of a block, in the order of its cells, pass four gates.
    new         an earlier pair of any block with the same canonical key drops a pair
    held out    a training pair has no side of depth 2 or more of a validation or test equation of depth 4 or more (at depth 3
                there are too few such sides)
    balanced    `balance`, per depth group
    counted     no more pairs per fold and depth than planned

A block is in memory while it is added. Of those before, their keys are, sorted, in 10 bytes each, the sides that are held out,
and the rows of the chosen pairs.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dgl_treestack.generate.balance import Difference, balanced
from dgl_treestack.generate.folds import KEY_BYTES
from dgl_treestack.generate.presets import Parts

GROUP_STARTS = (3, 5, 8, 14, 20)  # depth groups that are balanced within themselves: 1-2, 3-4, 5-7, 8-13, 14-19, 20 and more

KEY = np.dtype(f"S{KEY_BYTES}")
SMALL = 3  # evaluation equations up to this depth may share sides with training equations


class Cell(NamedTuple):
    """The unit of a plan: a block of pairs that are balanced together, a fold, a depth."""

    block: int
    fold: str
    depth: int


@dataclass
class Assembly:
    """The result of the gates.

    chosen: cell -> part -> rows of the pairs to keep. raw_pairs: cell -> their number. new: cell -> number of pairs that passed
    the first two gates. dropped: (gate, depth) -> number of pairs that the gate dropped.
    """

    chosen: dict[Cell, dict[str, "array[int]"]] = field(default_factory=dict)
    raw_pairs: Counter[Cell] = field(default_factory=Counter)
    new: Counter[Cell] = field(default_factory=Counter)
    dropped: Counter[tuple[str, int]] = field(default_factory=Counter)

    def count(self, cell: Cell) -> int:
        """Return the number of pairs to keep in a cell."""
        return sum(map(len, self.chosen[cell].values()))


@dataclass(frozen=True)
class RawPair:
    """What the gates read of a raw pair: its part and row, canonical keys of its members and of their sides, local features."""

    part: str
    row: int
    cell: Cell
    keys: tuple[bytes, bytes]
    sides: tuple[bytes, ...]
    difference: Difference


@dataclass
class Assembler:
    """Adds blocks one after the other; evaluation folds come first, so that training never changes them.

    tolerance: see `balance.balanced`. balanced: a digest of a block's pairs -> indices of those that `balance` keeps, which the
    next round of shards uses again. keys: of all pairs so far, sorted; a Python set would take ten times the memory. held_out:
    sides that no training pair may have.
    """

    parts: Parts
    seed: int
    tolerance: float
    balanced: dict[bytes, np.ndarray] = field(default_factory=dict)
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, KEY))
    held_out: set[bytes] = field(default_factory=set)
    result: Assembly = field(default_factory=Assembly)

    def add(self, block: int, names: Mapping[Cell, Sequence[str]], plan: Mapping[Cell, int]) -> None:
        """Add a block. names: cell -> its parts, in order. plan: cell -> number of pairs."""
        keys: set[bytes] = set()
        raw = [pair for cell in plan for name in names.get(cell, ()) for pair in self._new(cell, name, keys)]
        new_keys = np.sort(np.array([*keys], KEY))
        self.keys = np.insert(self.keys, np.searchsorted(self.keys, new_keys), new_keys)
        digest = hashlib.sha256(repr((block, [(pair.part, pair.row) for pair in raw])).encode()).digest()
        if digest not in self.balanced:
            groups = [sum(pair.cell.depth >= start for start in GROUP_STARTS) for pair in raw]
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, block]))
            indices = balanced([pair.difference for pair in raw], groups, rng, self.tolerance)
            self.balanced[digest] = indices.astype(np.int32)
        balanced_indices = set(self.balanced[digest].tolist())
        self.result.chosen.update({cell: {} for cell in plan})
        counts = Counter[Cell]()
        for i, pair in enumerate(raw):
            if i not in balanced_indices:
                self.result.dropped["balance", pair.cell.depth] += 1
            elif counts[pair.cell] >= plan[pair.cell]:
                self.result.dropped["more than planned", pair.cell.depth] += 1
            else:
                counts[pair.cell] += 1
                self.result.chosen[pair.cell].setdefault(pair.part, array("I")).append(pair.row)

    def _new(self, cell: Cell, name: str, keys: set[bytes]) -> Iterator[RawPair]:
        """Yield the pairs of a part that pass the first two gates. keys: of the pairs of this block so far, updated."""
        pairs = []
        for number, row in enumerate(self.parts.rows(name)):
            first, second = map(bytes.fromhex, row["keys"])
            sides = tuple(map(bytes.fromhex, row["sides"]))
            features, values = row["difference"]
            difference = np.array(features, np.int32), np.array(values, np.float32)
            pairs.append(RawPair(name, number, cell, (first, second), sides, difference))
        sought = np.array([pair.keys for pair in pairs], KEY).reshape(-1, 2)
        is_known = np.zeros(len(pairs), bool)
        if len(self.keys):
            is_known = (self.keys[np.minimum(np.searchsorted(self.keys, sought), len(self.keys) - 1)] == sought).any(axis=1)
        for pair, is_duplicate in zip(pairs, is_known, strict=True):
            self.result.raw_pairs[cell] += 1
            if is_duplicate or not keys.isdisjoint(pair.keys):
                self.result.dropped["duplicate", cell.depth] += 1
            elif cell.fold == "train" and not self.held_out.isdisjoint(pair.sides):
                self.result.dropped["side of an evaluation equation", cell.depth] += 1
            else:
                keys.update(pair.keys)
                if cell.fold != "train" and cell.depth > SMALL:
                    self.held_out.update(pair.sides)
                self.result.new[cell] += 1
                yield pair
