"""From raw pairs to a data set without duplicates, leaks between folds, or local features that predict the label.

The pairs of a block, in the order of its cells, pass four gates.
    new         an earlier pair of any block with the same canonical key drops a pair
    held out    a training pair has no side of depth 2 or more of a validation or test equation of depth 4 or more (at depth 3
                there are too few such sides)
    balanced    `balance`, per depth group
    counted     no more pairs per fold and depth than planned
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dgl_treestack.generate.balance import Difference, balanced
from dgl_treestack.generate.presets import Parts

GROUP_STARTS = (3, 5, 8, 14, 20)  # depth groups that are balanced within themselves: 1-2, 3-4, 5-7, 8-13, 14-19, 20 and more

SMALL = 3  # evaluation equations up to this depth may share sides with training equations


class Cell(NamedTuple):
    """The unit of a plan: a block of pairs that are balanced together, a fold, a depth."""

    block: int
    fold: str
    depth: int


class Location(NamedTuple):
    """Where a raw pair is stored: the name of its part, and its row in the part."""

    part: str
    row: int


@dataclass
class Assembly:
    """The result of the gates.

    chosen: cell -> the pairs to keep. raw_pairs: cell -> their number. new: cell -> number of pairs that passed the first two
    gates. dropped: (gate, depth) -> number of pairs that the gate dropped.
    """

    chosen: dict[Cell, list[Location]] = field(default_factory=dict)
    raw_pairs: Counter[Cell] = field(default_factory=Counter)
    new: Counter[Cell] = field(default_factory=Counter)
    dropped: Counter[tuple[str, int]] = field(default_factory=Counter)


@dataclass(frozen=True)
class RawPair:
    """What the gates read of a raw pair: canonical keys of its members and of their sides, local features."""

    location: Location
    cell: Cell
    keys: frozenset[bytes]
    sides: frozenset[bytes]
    difference: Difference


@dataclass
class Memory:
    """Results that the next round reuses.

    raw: part -> its pairs. balanced: block and its pairs -> indices of the pairs that `balance` keeps.
    """

    raw: dict[str, list[RawPair]] = field(default_factory=dict)
    balanced: dict[tuple[int, tuple[Location, ...]], np.ndarray] = field(default_factory=dict)


@dataclass
class Assembler:
    """Adds blocks one after the other; evaluation folds come first, so that training never changes them.

    tolerance: see `balance.balanced`. keys: of all pairs so far. held_out: sides that no training pair may have.
    """

    parts: Parts
    seed: int
    tolerance: float
    memory: Memory = field(default_factory=Memory)
    keys: set[bytes] = field(default_factory=set)
    held_out: set[bytes] = field(default_factory=set)
    result: Assembly = field(default_factory=Assembly)

    def add(self, block: int, names: Mapping[Cell, Sequence[str]], plan: Mapping[Cell, int]) -> None:
        """Add a block. names: cell -> its parts, in order. plan: cell -> number of pairs."""
        raw = [pair for cell in plan for name in names.get(cell, ()) for pair in self._new(cell, name)]
        key = block, tuple(pair.location for pair in raw)
        if key not in self.memory.balanced:
            groups = [sum(pair.cell.depth >= start for start in GROUP_STARTS) for pair in raw]
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, block]))
            indices = balanced([pair.difference for pair in raw], groups, rng, self.tolerance)
            self.memory.balanced = {k: v for k, v in self.memory.balanced.items() if k[0] != block} | {key: indices}
        balanced_indices = set(self.memory.balanced[key].tolist())
        self.result.chosen.update({cell: [] for cell in plan})
        for i, pair in enumerate(raw):
            locations = self.result.chosen[pair.cell]
            if i not in balanced_indices:
                self.result.dropped["balance", pair.cell.depth] += 1
            elif len(locations) >= plan[pair.cell]:
                self.result.dropped["more than planned", pair.cell.depth] += 1
            else:
                locations.append(pair.location)

    def _new(self, cell: Cell, name: str) -> Iterator[RawPair]:
        """Yield the pairs of a part that pass the first two gates."""
        if name not in self.memory.raw:
            pairs = []
            for number, row in enumerate(self.parts.rows(name)):
                keys, sides = (frozenset(map(bytes.fromhex, row[entry])) for entry in ("keys", "sides"))
                features, values = row["difference"]
                difference = np.array(features, np.int32), np.array(values, np.float32)
                pairs.append(RawPair(Location(name, number), cell, keys, sides, difference))
            self.memory.raw[name] = pairs
        for pair in self.memory.raw[name]:
            self.result.raw_pairs[cell] += 1
            if pair.keys & self.keys:
                self.result.dropped["duplicate", cell.depth] += 1
            elif cell.fold == "train" and pair.sides & self.held_out:
                self.result.dropped["side of an evaluation equation", cell.depth] += 1
            else:
                self.keys |= pair.keys
                if cell.fold != "train" and cell.depth > SMALL:
                    self.held_out |= pair.sides
                self.result.new[cell] += 1
                yield pair
