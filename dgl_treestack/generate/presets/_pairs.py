"""Presets that consist of matched pairs: what they share, from the plan to the files."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

from dgl_treestack.generate.assembly import Assembler, Assembly, Cell, Memory
from dgl_treestack.generate.folds import fold_of
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.pairs import PairMaker
from dgl_treestack.generate.pieces import Habits
from dgl_treestack.generate.presets._contract import Options, Parts, Preset, Product, Row, Shard
from dgl_treestack.generate.presets._rows import row_of
from dgl_treestack.generate.random import stream

FOLDS = ("test", "validation", "train")  # in the order in which they choose: what is evaluated on comes first
FILES = {fold: f"{fold}.jsonl.gz" for fold in ("train", "validation", "test")}
NUMERIC_SHARE = 1 / 7  # of equations without variables, from depth 3 on; below there is hardly anything else
SHARD = 400  # pairs
CROWDED, CROWDED_SHARD = 3, 2500  # up to this depth shards would make the same pairs over and over
ROUNDS = 12  # of making up for what was dropped
WORTHWHILE = 0.3  # a cell is exhausted when fewer of its pairs are new
TRIES = 30  # attempts per pair wanted

Plan = Mapping[Cell, int]  # pairs per cell


@dataclass(frozen=True)
class Recipe:
    """How the pairs of a preset are made.

    styles: style of `corrupt` -> weight. partition: of the canonical keys, see `folds`. shares: fold -> share of the families.
    surplus: raw pairs made for one that is wanted, up to a depth and beyond the last one named. tolerance: of the balance.
    """

    styles: Mapping[str, float]
    partition: str = ""
    shares: Mapping[str, float] = field(default_factory=lambda: {"train": 0.6, "validation": 0.15, "test": 0.25})
    habits: Habits = field(default_factory=Habits)
    surplus: tuple[tuple[int, float], ...] = ((3, 2.0), (4, 1.8), (7, 1.45), (1000, 1.25))
    tolerance: float = 1.5


class PairPreset(Preset):
    """A preset of matched pairs. A subclass has a recipe and says how many pairs it wants of each cell."""

    recipe: ClassVar[Recipe]

    def __init__(self) -> None:
        self._asked: Options | None = None
        self._assembled: dict[tuple[str, ...], Assembly] = {}
        self._memory = Memory()

    def plan(self, options: Options) -> Plan:
        """Pairs per cell, in the order in which cells choose."""
        raise NotImplementedError

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        """Round by round: enough for the plan, then what the gates of `assembly` took, as long as there is more to find."""
        plan = self.plan(options)
        asked = {cell: pairs * self._surplus(cell.depth) for cell, pairs in plan.items()}
        shards = _cut(asked, 0)
        for round_number in range(1, ROUNDS):
            if not {shard.name for shard in shards} <= set(parts.names()):
                return shards
            asked = self._missing(plan, self.assembled(options, parts, shards))
            if not asked:
                return shards
            shards = [*shards, *_cut(asked, round_number)]
        return shards

    def _missing(self, plan: Plan, found: Assembly) -> dict[Cell, float]:
        """Raw pairs to make: cell -> how many, for the cells that fall short and are not exhausted."""
        missing = {}
        for cell, wanted in plan.items():
            kept, made = len(found.chosen[cell]), found.made[cell]
            if kept < wanted and found.new[cell] > WORTHWHILE * made:
                missing[cell] = min(3 * wanted, (2 * (wanted - kept) + 0.02 * wanted) * made / max(1, kept) + 40)
        return missing

    def _surplus(self, depth: int) -> float:
        return next(surplus for last, surplus in self.recipe.surplus if depth <= last)

    def assembled(self, options: Options, parts: Parts, shards: list[Shard]) -> Assembly:
        """What becomes of these shards' pairs; remembered, as every round and the end ask again."""
        if options != self._asked:
            self._asked, self._assembled, self._memory = options, {}, Memory()
        key = tuple(shard.name for shard in shards)
        if key not in self._assembled:
            plan, names = self.plan(options), _parts_of(shards)
            assembler = Assembler(parts, options.seed, self.recipe.tolerance, self._memory)
            for block in dict.fromkeys(cell.block for cell in plan):
                assembler.add(block, names, {cell: pairs for cell, pairs in plan.items() if cell.block == block})
            self._assembled[key] = assembler.result
        return self._assembled[key]

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        """Raw pairs of one fold and depth."""
        cell, wanted, recipe = Cell(*shard.work["cell"]), shard.work["pairs"], self.recipe
        maker = PairMaker(Grower(stream(options.seed, shard.name), recipe.habits), recipe.styles, recipe.partition)
        if cell.depth == 1:
            found = (pair for pair in maker.atoms() if fold_of(pair.family, recipe.shares) == cell.fold)
            yield from map(row_of, islice(found, wanted))
            return
        without_variables = 0
        made = 0
        for _ in range(wanted * TRIES):
            numeric = cell.depth < 3 or without_variables < NUMERIC_SHARE * wanted
            start, family = maker.start(numeric)
            if fold_of(family, recipe.shares) != cell.fold:
                continue
            pair = maker.make(start, family, cell.depth, numeric)
            if pair is None:
                continue
            without_variables += not any(side.variables for side in pair.true.sides)
            yield row_of(pair)
            made += 1
            if made == wanted:
                return

    def finish(self, options: Options, parts: Parts) -> Product:
        """One file per fold; notes on what was made, dropped and missing."""
        shards = self.shards(options, parts)
        found, plan = self.assembled(options, parts, shards), self.plan(options)
        folds = [fold for fold in FILES if any(cell.fold == fold for cell in plan)]
        return Product({FILES[fold]: _lines(fold, found, parts) for fold in folds}, _notes(plan, found))


def scaled(plan: dict[Cell, int], equations: int) -> dict[Cell, int]:
    """The plan with about so many equations in all, as it is for 0; no cell becomes empty."""
    if not equations:
        return plan
    factor = equations / (2 * sum(plan.values()))
    return {cell: max(1, round(factor * pairs)) for cell, pairs in plan.items()}


def _cut(asked: Mapping[Cell, float], round_number: int) -> list[Shard]:
    """Shards of about equal size for so many raw pairs per cell."""
    shards = []
    for cell, pairs in asked.items():
        count = max(1, math.ceil(pairs / (SHARD if cell.depth > CROWDED else CROWDED_SHARD)))
        for number in range(count):
            name = f"{cell.block:03d}-{cell.fold}-{cell.depth:02d}-{round_number}-{number:04d}"
            shards.append(Shard(name, {"cell": list(cell), "pairs": math.ceil(pairs / count)}))
    return shards


def _parts_of(shards: list[Shard]) -> dict[Cell, list[str]]:
    names: dict[Cell, list[str]] = {}
    for shard in shards:
        names.setdefault(Cell(*shard.work["cell"]), []).append(shard.name)
    return names


def _lines(fold: str, found: Assembly, parts: Parts) -> Iterator[Row]:
    """The lines of a fold's file, block by block, shallow equations first."""
    number = 0
    for cell in sorted(cell for cell in found.chosen if cell.fold == fold):
        wanted: dict[str, set[int]] = {}
        for place in found.chosen[cell]:
            wanted.setdefault(place.part, set()).add(place.row)
        for part, numbers in wanted.items():
            for row in (row for i, row in enumerate(parts.rows(part)) if i in numbers):
                name = f"{fold[:2]}{number}"
                number += 1
                for suffix, line in zip("tf", row["members"], strict=True):
                    yield {"id": name + suffix, **line, "fold": fold, "pair": name}


def _notes(plan: Plan, found: Assembly) -> Row:
    """What was made and dropped, in pairs, and the cells that fell short."""
    dropped: dict[str, dict[str, int]] = {}
    for (gate, depth), count in sorted(found.dropped.items()):
        dropped.setdefault(gate, {})[str(depth)] = count
    made: Counter[int] = Counter()
    for cell, pairs in found.made.items():
        made[cell.depth] += pairs
    short: Counter[str] = Counter()
    for cell, pairs in plan.items():
        short[f"{cell.fold}, depth {cell.depth}"] += pairs - len(found.chosen[cell])
    return {
        "pairs made, by depth": {str(depth): made[depth] for depth in sorted(made)},
        "pairs dropped, by gate and depth": dropped,
        "pairs short of the plan": {name: count for name, count in short.items() if count},
    }
