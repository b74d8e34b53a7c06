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


@dataclass
class _Raw:
    place: Place
    cell: Cell
    difference: Difference


def _difference(features: Sequence[int], values: Sequence[float]) -> Difference:
    return np.array(features, np.int32), np.array(values, np.float32)


class Assembler:
    """Puts blocks together one after the other; evaluation folds come first, so that training never changes them."""

    def __init__(self, parts: Parts, seed: int, tolerance: float):
        self.parts, self.seed, self.tolerance = parts, seed, tolerance
        self.keys: set[bytes] = set()
        self.held_out: set[bytes] = set()
        self.result = Assembly()

    def add(self, block: int, names: Mapping[Cell, Sequence[str]], wanted: Mapping[Cell, int]) -> None:
        """Take a block. names: cell -> its parts, in order. wanted: cell -> pairs."""
        raw = [pair for cell in wanted for name in names.get(cell, ()) for pair in self._unseen(cell, name)]
        groups = [sum(pair.cell.depth >= start for start in GROUP_STARTS) for pair in raw]
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, block]))
        kept = balanced([pair.difference for pair in raw], groups, rng, self.tolerance)
        self._drop("balance", [raw[i] for i in set(range(len(raw))) - set(kept.tolist())])
        self.result.chosen.update({cell: [] for cell in wanted})
        for pair in (raw[int(i)] for i in kept):
            places = self.result.chosen[pair.cell]
            if len(places) < wanted[pair.cell]:
                places.append(pair.place)
            else:
                self._drop("more than planned", [pair])

    def _drop(self, gate: str, pairs: Sequence[_Raw]) -> None:
        self.result.dropped.update((gate, pair.cell.depth) for pair in pairs)

    def _unseen(self, cell: Cell, name: str) -> Iterator[_Raw]:
        """The pairs of a part that pass the first two gates."""
        for number, row in enumerate(self.parts.rows(name)):
            pair = _Raw(Place(name, number), cell, _difference(*row["difference"]))
            keys = {bytes.fromhex(key) for key in row["keys"]}
            sides = {bytes.fromhex(key) for key in row["sides"]}
            self.result.made[cell] += 1
            if keys & self.keys:
                self._drop("known already", [pair])
            elif cell.fold == "train" and sides & self.held_out:
                self._drop("side of an evaluation equation", [pair])
            else:
                self.keys |= keys
                if cell.fold != "train" and cell.depth > SMALL:
                    self.held_out |= sides
                self.result.new[cell] += 1
                yield pair
