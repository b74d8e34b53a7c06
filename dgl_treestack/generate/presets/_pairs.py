"""The base of presets of matched pairs: from a plan, by rounds of shards, to the files."""

import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Equation
from dgl_treestack.generate.assembly import Assembly, PlanCell, difference
from dgl_treestack.generate.folds import fold_of
from dgl_treestack.generate.grow import Grower, Habits
from dgl_treestack.generate.nodes import to_expression
from dgl_treestack.generate.pairs import Pair, PairMaker
from dgl_treestack.generate.presets import FILES, Parts, Preset, Product, Row, SetOptions, Shard, stream
from dgl_treestack.truth import is_on_cut

NUMERIC_SHARE = 1 / 7  # maximum share of pairs without variables, from depth 3 on
SHARD = 400  # pairs
CROWDED, CROWDED_SHARD = 3, 2500  # up to this depth shards are larger, because small ones would repeat each other's pairs
ROUNDS = 12  # of shards; all but the first replace dropped pairs
WORTHWHILE = 0.3  # a cell is exhausted if a smaller share of its pairs is new
TRIES = 30  # attempts per requested pair
NOISE = 1e-9  # largest share of a number that is rounding: before, processors differed in 10 of 6,000 certificates
SURPLUS = ((3, 2.0), (4, 1.8), (7, 1.45), (1000, 1.25))  # last depth, raw pairs made per planned pair

Plan = Mapping[PlanCell, int]  # pairs per cell


@dataclass(eq=False, kw_only=True)
class PairPreset(Preset):
    """A set of matched pairs, declared by its fields.

    styles: style of `pairs` -> weight. partition: of the canonical keys, see `folds`. shares: fold -> share of the families.
    pairs: fold -> depth -> pairs, in the order in which folds choose their pairs: evaluation folds first; beyond the last
    depth, up to --max-depth, as many as there. block_starts: the first depth of every block but the first, see `assembly`.
    """

    summary: str
    seed: int
    pairs: Mapping[str, Mapping[int, int]]
    accepts: frozenset[str] = frozenset({"equations", "no_cuts"})
    styles: Mapping[str, float] = field(default_factory=lambda: {"swap": 0.5, "buried": 0.2, "false rule": 0.3})
    partition: str = ""
    shares: Mapping[str, float] = field(default_factory=lambda: {"train": 0.6, "validation": 0.15, "test": 0.25})
    habits: Habits = field(default_factory=Habits)
    block_starts: tuple[int, ...] = ()

    def plan(self, options: SetOptions) -> Plan:
        """Return the pairs per cell, at least one, in the order in which cells choose them. Raises ConfigurationError for too
        small a depth."""
        plan: dict[PlanCell, int] = {}
        for fold, pairs in self.pairs.items():
            first, last = min(pairs), max(pairs)
            deepest = options.max_depth or last
            if deepest < first:
                raise ConfigurationError(f"--max-depth is {deepest}; the equations of this set have depth {first} at least.")
            for depth in range(first, deepest + 1):
                block = sum(depth >= start for start in self.block_starts)
                plan[PlanCell(block, fold, depth)] = pairs.get(depth, pairs[last])
        if not options.equations:
            return plan
        scale = options.equations / (2 * sum(plan.values()))
        return {cell: max(1, round(scale * pairs)) for cell, pairs in plan.items()}

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        """The first round has a surplus; later ones replace pairs that the gates of `assembly` dropped, until the plan is met
        or the cells that fall short are exhausted."""
        plan, names, balanced = self.plan(options), dict[PlanCell, list[str]](), dict[bytes, np.ndarray]()
        surplus = {cell: next(factor for last, factor in SURPLUS if cell.depth <= last) for cell in plan}
        requested: dict[PlanCell, float] = {cell: pairs * surplus[cell] for cell, pairs in plan.items()}
        for round_number in range(ROUNDS):
            shards = list[Shard]()
            for cell, pairs in requested.items():
                count = max(1, math.ceil(pairs / (SHARD if cell.depth > CROWDED else CROWDED_SHARD)))
                for number in range(count):
                    name = f"{cell.block:03d}-{cell.fold}-{cell.depth:02d}-{round_number}-{number:04d}"
                    shards.append(Shard(name, {"cell": list(cell), "pairs": math.ceil(pairs / count)}))
                    names.setdefault(cell, []).append(name)
            yield shards
            assembly, requested = Assembly(parts, options.seed, balanced), {}
            for block in dict.fromkeys(cell.block for cell in plan):
                assembly.add(block, names, {cell: pairs for cell, pairs in plan.items() if cell.block == block})
            chosen_in_cell = {cell: sum(map(len, rows_of_part.values())) for cell, rows_of_part in assembly.chosen.items()}
            for cell, planned in plan.items():
                chosen, raw = chosen_in_cell[cell], assembly.raw_pairs[cell]
                if chosen < planned and assembly.new[cell] > WORTHWHILE * raw:
                    shortage = 2 * (planned - chosen) + 0.02 * planned
                    requested[cell] = min(3 * planned, shortage * raw / max(1, chosen) + 40)
            if not requested:
                break
        pairs_of_depth, dropped, short = Counter[int](), dict[str, dict[str, int]](), Counter[str]()
        for cell, pairs in assembly.raw_pairs.items():
            pairs_of_depth[cell.depth] += pairs
        for (gate, depth), pairs in sorted(assembly.dropped.items()):
            dropped.setdefault(gate, {})[str(depth)] = pairs
        for cell, planned in plan.items():
            short[f"{cell.fold}, depth {cell.depth}"] += planned - chosen_in_cell[cell]
        notes = {
            "pairs made, by depth": {str(depth): pairs for depth, pairs in sorted(pairs_of_depth.items())},
            "pairs dropped, by gate and depth": dropped,
            "pairs short of the plan": dict(+short),
        }
        return {FILES[fold]: _lines(fold, assembly, parts) for fold in FILES if fold in self.pairs}, notes

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        """Generate the raw pairs of one cell: a block, a fold and a depth."""
        cell, requested = PlanCell(*shard.work["cell"]), shard.work["pairs"]
        maker = PairMaker(Grower(stream(options.seed, shard.name), self.habits), self.styles, self.partition)
        if cell.depth == 1:
            atoms = (pair for pair in maker.atoms() if fold_of(pair.family, self.shares) == cell.fold)
            yield from map(row_of, islice(atoms, requested))
            return
        finished = without_variables = 0
        for _ in range(requested * TRIES):
            numeric = cell.depth < 3 or without_variables < NUMERIC_SHARE * requested
            start, family = maker.start(numeric)
            if fold_of(family, self.shares) != cell.fold:
                continue
            pair = maker.make(start, family, cell.depth, numeric)
            if pair is None:
                continue
            row = row_of(pair)
            if options.no_cuts and any("cut" in line["certificate"] for line in row["members"]):
                continue
            without_variables += not pair.true.root.variables
            yield row
            finished += 1
            if finished == requested:
                return


def row_of(pair: Pair) -> Row:
    """Return a pair as plain data: the lines of its members, with certificates, and the features that `assembly` reads."""
    lines, equations = list[Row](), (to_expression(pair.true.root, Equation), to_expression(pair.false.root, Equation))
    origins: tuple[Row, Row] = ({"derivation": pair.derivation}, {"style": pair.style})
    for member, equation, origin, label in zip((pair.true, pair.false), equations, origins, (1, 0), strict=True):
        certificate, witness = member.verdict.certificate, member.verdict.witness
        if witness is not None:
            sides = {}
            for side, value in (("left", witness.left), ("right", witness.right)):
                parts = (value.real, value.imag)  # in six digits; what is small beside the number depends on the processor
                sides[side] = [float(f"{part:.6g}") if abs(part) > NOISE * abs(value) else 0.0 for part in parts]
            certificate["witness"] = {"point": witness.point, **sides}
        if is_on_cut(*(side.value for side in member.root.children)):
            certificate["cut"] = True
        lines.append(to_dict(Example(equation, label, family=pair.family[:12], certificate={**certificate, **origin})))
    features = difference(*equations)
    return {
        "members": lines,
        "keys": [pair.true.key, pair.false.key],
        "sides": sorted(pair.sides),
        "difference": [[*features], [*features.values()]],
    }


def _lines(fold: str, assembly: Assembly, parts: Parts) -> Iterator[Row]:
    """Generate the lines of a fold's file, block by block, shallow equations first."""
    number = 0
    for cell in sorted(cell for cell in assembly.chosen if cell.fold == fold):
        for part, rows in assembly.chosen[cell].items():
            chosen = set(rows)
            for row in (row for i, row in enumerate(parts.rows(part)) if i in chosen):
                name = f"{fold[:2]}{number}"
                number += 1
                for suffix, line in zip("tf", row["members"], strict=True):
                    yield {"id": name + suffix, **line, "fold": fold, "pair": name}
