"""Equation completion: true equations of depth 8 to 13 with a subtree of depth 0 to 2 blanked, and one set of candidates.

There are two files. `blanks.jsonl.gz` has the equations with the truth in place: `blank` is the node to guess and `class` the
value class of the subtree at that node. Blanks are distributed evenly over the depth of the equation, the depth of the blank
and its side, so that results at all depths are equally precise. `candidates.jsonl.gz` has the expressions that may fill a
blank, each with its class: every leaf, every expression of depth 1 over the leaves, every truth of depth 2, and half as many
near misses of those.

A candidate is right if the equation holds with it (`blanks.fills`). This is true for the class of the truth, and often for
other classes, as for -x in `_**2 = x**2`. The certificate lists all right classes under `right`, and under `doubtful` those
with which the equation holds at some points only or is undefined; a ranking omits the latter. All other classes are wrong.

Shards are generated in three rounds: equations, candidates from all truths, and the fit of every candidate in every blank.
"""

from collections import Counter
from collections.abc import Iterator

from dgl_treestack.expression import Expression
from dgl_treestack.generate.blanks import (
    BLANKS_FILE,
    VARIABLES,
    CandidateSet,
    Filler,
    counted,
    is_question,
    kept,
    places_of_depth,
    questions,
    true_equations,
)
from dgl_treestack.generate.nodes import Pool
from dgl_treestack.generate.presets import Options, Parts, Preset, Product, Row, Shard, pick, stream

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

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        (_, equations), present = _plan(options), set(parts.names())
        if any(shard.name not in present for shard in equations):
            return equations
        truths = {row["truth"] for row in parts.rows(*(shard.name for shard in equations))}
        candidates = Shard("candidates", {"truths": sorted(truths)})
        if candidates.name not in present:
            return [*equations, candidates]
        rows, fits = list(parts.rows(candidates.name)), []
        for shard in equations:
            work = {"blanks": list(parts.rows(shard.name)), "candidates": rows}
            fits.append(Shard(shard.name.replace("equations", "fits"), work))
        return [*equations, candidates, *fits]

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        kind = shard.name.split("-")[0]
        return {"equations": _blanks, "candidates": _candidates, "fits": _fits}[kind](options, shard)

    def finish(self, options: Options, parts: Parts) -> Product:
        per_cell, equations = _plan(options)
        planned = {(depth, *cell): per_cell for depth in DEPTHS for cell in _CELLS}
        names = [shard.name.replace("equations", "fits") for shard in equations]
        lines, notes = kept(parts.rows(*names), planned, _CELL_NAME)
        candidates = list(parts.rows("candidates"))
        sizes = {
            "candidates by depth": counted(row["depth"] for row in candidates),
            "classes": len({row["class"] for row in candidates}),
            "blanks of the commonest class": max(Counter(line["class"] for line in lines).values(), default=0),
        }
        return Product({BLANKS_FILE: lines, CANDIDATES_FILE: candidates}, {**notes, **sizes})


PRESET = Completion()


def _plan(options: Options) -> tuple[int, list[Shard]]:
    """Return the blanks per depth and cell, and the shards that make them."""
    per_cell = max(1, round((options.equations or EQUATIONS) / (len(DEPTHS) * len(_CELLS))))
    chunks = -(-per_cell // _CHUNK)
    blanks = int(_SURPLUS * per_cell / chunks) + 1
    return per_cell, [
        Shard(f"equations-{depth:02d}-{chunk:03d}", {"depth": depth, "blanks": blanks})
        for depth in DEPTHS
        for chunk in range(chunks)
    ]


def _blanks(options: Options, shard: Shard) -> Iterator[Row]:
    """Make blanks for every cell; an equation is used for the emptiest cell for which it has a node."""
    rng, counts = stream(options.seed, shard.name), dict.fromkeys(_CELLS, 0)
    depth, full = shard.work["depth"], shard.work["blanks"]
    for equation, row in true_equations(rng, depth, 200 + _ATTEMPTS * full * len(_CELLS)):
        for cell in sorted((cell for cell in _CELLS if counts[cell] < full), key=counts.__getitem__):
            nodes = places_of_depth(equation, *cell)
            blank = pick(nodes, rng) if nodes else 0
            if blank and is_question(equation, blank):
                counts[cell] += 1
                yield {**row, "truth": equation.subtree(blank).prefix(), "blank": blank, "cell": [depth, *cell]}
                break
        if min(counts.values()) == full:
            return


def _candidates(options: Options, shard: Shard) -> Iterator[Row]:
    """Make the candidates: leaves, expressions of depth 1, truths, near misses. Earlier ones have priority."""
    filler, candidates = Filler(VARIABLES, stream(options.seed, shard.name)), CandidateSet()
    truths = [filler.pool.tree(Expression.from_prefix(text)) for text in shard.work["truths"]]
    for node in (*filler.simple(), *truths):
        candidates.add(node)
    deep = [node for node in truths if node.depth == max(BLANK_DEPTHS)]
    full = len(candidates.members) + len(deep) // 2
    for _ in range(10 * len(deep)):
        if len(candidates.members) == full:
            break
        near_miss = filler.near_miss(pick(deep, filler.rng))
        if near_miss is not None:
            candidates.add(near_miss)
    return candidates.rows("f")


def _fits(options: Options, shard: Shard) -> Iterator[Row]:
    """Yield the lines of the blanks, with their right classes."""
    pool = Pool()
    classes = {pool.tree(Expression.parse(row["text"])): row["class"] for row in shard.work["candidates"]}
    return questions(pool, classes, shard.work["blanks"], CANDIDATES_FILE)
