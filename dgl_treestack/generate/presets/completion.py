"""Equation completion: true equations of depth 8 to 13 with a subtree of depth 0 to 2 blanked, and one set of candidates.

`blanks.jsonl.gz` has the equations with the truth in place: `blank` is the node to guess and `class` the value class of the
subtree there. Blanks are distributed evenly over the depth of the equation, the depth of the blank and its side.
`candidates.jsonl.gz` has every leaf, every expression of depth 1 over the leaves, every truth of depth 2, and half as many near
misses of those, each with its class. The certificate of a blank lists all classes that are right under `right`, and under
`doubtful` those with which the equation holds at some points only or is undefined; a ranking omits the latter.

Shards are generated in three rounds: equations, candidates from all truths, and the fit of every candidate in every blank.
"""

from collections import Counter
from collections.abc import Generator, Iterator

import numpy as np

from dgl_treestack.expression import Expression
from dgl_treestack.generate import blanks
from dgl_treestack.generate.nodes import Pool
from dgl_treestack.generate.presets import Parts, Preset, Product, Row, SetOptions, Shard, pick, stream

EQUATIONS = 4000
DEPTHS, BLANK_DEPTHS, SIDES = range(8, 14), (0, 1, 2), ("left", "right")
CANDIDATES_FILE = "candidates.jsonl.gz"
_CELLS = tuple((depth, side) for depth in BLANK_DEPTHS for side in SIDES)  # at one depth of equations
_CELL_NAME = "depth {}, blank of depth {}, {}"
_CHUNK = 30  # blanks per cell in a shard
_SURPLUS = 1.1  # blanks made per blank of the plan
_ATTEMPTS = 15  # derivations per blank


class Completion(Preset):
    summary = "true equations of depth 8-13 with a blank of depth 0-2, and candidates with value classes"
    seed = 2018

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        per_cell = max(1, round((options.equations or EQUATIONS) / (len(DEPTHS) * len(_CELLS))))
        chunks = -(-per_cell // _CHUNK)
        blanks_of_cell = int(_SURPLUS * per_cell / chunks) + 1
        equations = [
            Shard(f"equations-{depth:02d}-{chunk:03d}", {"depth": depth, "blanks": blanks_of_cell})
            for depth in DEPTHS
            for chunk in range(chunks)
        ]
        yield equations
        truths = {row["truth"] for row in parts.rows(*(shard.name for shard in equations))}
        yield [Shard("candidates", {"truths": sorted(truths)})]
        candidates, fits = list(parts.rows("candidates")), list[Shard]()
        for shard in equations:
            work = {"blanks": list(parts.rows(shard.name)), "candidates": candidates}
            fits.append(Shard(shard.name.replace("equations", "fits"), work))
        yield fits
        planned = {(depth, *cell): per_cell for depth in DEPTHS for cell in _CELLS}
        lines, notes = blanks.kept(parts.rows(*(shard.name for shard in fits)), planned, _CELL_NAME)
        sizes = {
            "candidates by depth": blanks.counted(row["depth"] for row in candidates),
            "classes": len({row["class"] for row in candidates}),
            "blanks of the commonest class": max(Counter(line["class"] for line in lines).values(), default=0),
        }
        return {blanks.BLANKS_FILE: lines, CANDIDATES_FILE: candidates}, {**notes, **sizes}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        rng = stream(options.seed, shard.name)
        if "depth" in shard.work:
            return _blanks(rng, shard.work["depth"], shard.work["blanks"])
        if "truths" in shard.work:  # leaves, expressions of depth 1, truths, near misses; earlier ones have priority
            filler, candidates = blanks.Filler(blanks.VARIABLES, rng), blanks.CandidateSet()
            truths = [filler.pool.tree(Expression.from_prefix(text)) for text in shard.work["truths"]]
            for node in (*filler.simple(), *truths):
                candidates.add(node)
            deep = [node for node in truths if node.depth == max(BLANK_DEPTHS)]
            full = len(candidates.members) + len(deep) // 2
            for _ in range(10 * len(deep)):
                if len(candidates.members) == full:
                    break
                near_miss = filler.near_miss(pick(deep, rng))
                if near_miss is not None:
                    candidates.add(near_miss)
            return candidates.rows("f")
        pool = Pool()
        classes = {pool.tree(Expression.parse(row["text"])): row["class"] for row in shard.work["candidates"]}
        return blanks.questions(pool, classes, shard.work["blanks"], CANDIDATES_FILE)


PRESET = Completion()


def _blanks(rng: np.random.Generator, depth: int, full: int) -> Iterator[Row]:
    """Make blanks for every cell; an equation is used for the emptiest cell for which it has a node."""
    counts = dict.fromkeys(_CELLS, 0)
    for equation, row in blanks.true_equations(rng, depth, 200 + _ATTEMPTS * full * len(_CELLS)):
        for cell in sorted((cell for cell in _CELLS if counts[cell] < full), key=counts.__getitem__):
            nodes = blanks.places_of_depth(equation, *cell)
            blank = pick(nodes, rng) if nodes else 0
            if blank and blanks.is_question(equation, blank):
                counts[cell] += 1
                yield {**row, "truth": equation.subtree(blank).prefix(), "blank": blank, "cell": [depth, *cell]}
                break
        if min(counts.values()) == full:
            return
