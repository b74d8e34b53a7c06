"""From raw pairs to a data set: nothing twice, nothing shared between folds, nothing to exploit, the counts asked for.

The pairs of a block are taken in the order of its cells and go through four gates.
    new         no canonical key that an earlier pair of any block has
    held out    a training pair has no side of depth 2 or more that a validation or test equation of depth 4 or more has
                (at depth 3 there are too few such sides)
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
    """What a part belongs to: a block of pairs that are balanced together, a fold, a depth."""

    block: int
    fold: str
    depth: int


class Place(NamedTuple):
    """Where a raw pair is: its part and its number there."""

    part: str
    row: int


@dataclass
class Assembly:
    """chosen: cell -> the pairs that stay. made: cell -> raw pairs. dropped: (gate, depth) -> pairs that did not pass."""

    chosen: dict[Cell, list[Place]] = field(default_factory=dict)
    made: Counter[Cell] = field(default_factory=Counter)
    new: Counter[Cell] = field(default_factory=Counter)
    dropped: Counter[tuple[str, int]] = field(default_factory=Counter)


@dataclass(frozen=True)
class Raw:
    """What the gates look at in a raw pair: canonical keys of its members and of their whole sides, local features."""

    place: Place
    cell: Cell
    keys: frozenset[bytes]
    sides: frozenset[bytes]
    difference: Difference


@dataclass
class Memory:
    """What need not be done again in the next round. raw: part -> its pairs. kept: block and pairs -> which are balanced."""

    raw: dict[str, list[Raw]] = field(default_factory=dict)
    kept: dict[tuple[int, tuple[Place, ...]], np.ndarray] = field(default_factory=dict)


def load(parts: Parts, name: str, cell: Cell) -> list[Raw]:
    """The raw pairs of a part."""
    return [
        Raw(Place(name, number), cell, _digests(row["keys"]), _digests(row["sides"]), _difference(*row["difference"]))
        for number, row in enumerate(parts.rows(name))
    ]


def _digests(texts: Sequence[str]) -> frozenset[bytes]:
    return frozenset(map(bytes.fromhex, texts))


def _difference(features: Sequence[int], values: Sequence[float]) -> Difference:
    return np.array(features, np.int32), np.array(values, np.float32)


class Assembler:
    """Puts blocks together one after the other; evaluation folds come first, so that training never changes them."""

    def __init__(self, parts: Parts, seed: int, tolerance: float, memory: Memory | None = None):
        self.parts, self.seed, self.tolerance, self.memory = parts, seed, tolerance, memory or Memory()
        self.keys: set[bytes] = set()
        self.held_out: set[bytes] = set()
        self.result = Assembly()

    def add(self, block: int, names: Mapping[Cell, Sequence[str]], wanted: Mapping[Cell, int]) -> None:
        """Take a block. names: cell -> its parts, in order. wanted: cell -> pairs."""
        raw = [pair for cell in wanted for name in names.get(cell, ()) for pair in self._unseen(cell, name)]
        kept = self._balanced(block, raw)
        self._drop("balance", [raw[i] for i in set(range(len(raw))) - set(kept.tolist())])
        self.result.chosen.update({cell: [] for cell in wanted})
        for pair in (raw[int(i)] for i in kept):
            places = self.result.chosen[pair.cell]
            if len(places) < wanted[pair.cell]:
                places.append(pair.place)
            else:
                self._drop("more than planned", [pair])

    def _balanced(self, block: int, raw: Sequence[Raw]) -> np.ndarray:
        question = block, tuple(pair.place for pair in raw)
        if question not in self.memory.kept:
            groups = [sum(pair.cell.depth >= start for start in GROUP_STARTS) for pair in raw]
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, block]))
            kept = balanced([pair.difference for pair in raw], groups, rng, self.tolerance)
            self.memory.kept = {known: k for known, k in self.memory.kept.items() if known[0] != block} | {question: kept}
        return self.memory.kept[question]

    def _drop(self, gate: str, pairs: Sequence[Raw]) -> None:
        self.result.dropped.update((gate, pair.cell.depth) for pair in pairs)

    def _unseen(self, cell: Cell, name: str) -> Iterator[Raw]:
        """The pairs of a part that pass the first two gates."""
        if name not in self.memory.raw:
            self.memory.raw[name] = load(self.parts, name, cell)
        for pair in self.memory.raw[name]:
            self.result.made[cell] += 1
            if pair.keys & self.keys:
                self._drop("known already", [pair])
            elif cell.fold == "train" and pair.sides & self.held_out:
                self._drop("side of an evaluation equation", [pair])
            else:
                self.keys |= pair.keys
                if cell.fold != "train" and cell.depth > SMALL:
                    self.held_out |= pair.sides
                self.result.new[cell] += 1
                yield pair
