"""Equation completion: true equations of depth 8 to 13 with a subtree of depth 0 to 2 blanked, and one set of candidates.

Two files. `blanks.jsonl.gz` has the equations, the truth in place: `blank` is the node to guess and `class` the value class of
what stands there. They are spread evenly over the depth of the equation, the depth of the blank and the side it is on, so that
a figure for one depth is as sure as for another. `candidates.jsonl.gz` has what may be put there, each with its class: every
leaf, every expression of depth 1 over the leaves, every truth of depth 2, and half as many near misses of those.

A candidate is right when the equation holds with it (`blanks.fills`). That is so for the whole class of the truth, and often
for others, as with -x in `_**2 = x**2`: the certificate lists all classes that are right under `right`, and under `doubtful`
those with which the equation holds at some points only or is undefined, which a ranking leaves out. All others are wrong.

Three rounds of shards: equations, candidates from all truths, and then what fits where.
"""

from collections import Counter
from collections.abc import Iterator

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.completion.blanks import VARIABLES, TrueEquation, is_question, places_of_depth, true_equations
from dgl_treestack.generate.completion.candidates import CandidateSet
from dgl_treestack.generate.completion.fillers import Filler
from dgl_treestack.generate.completion.fitting import Fillings
from dgl_treestack.generate.completion.questions import BLANKS_FILE, chosen, counted, question
from dgl_treestack.generate.nodes import Pool
from dgl_treestack.generate.presets._contract import Options, Parts, Preset, Product, Row, Shard
from dgl_treestack.generate.random import stream

EQUATIONS = 4000
DEPTHS, BLANK_DEPTHS, SIDES = range(8, 14), (0, 1, 2), ("left", "right")
CANDIDATES_FILE = "candidates.jsonl.gz"
_CELLS = tuple((depth, side) for depth in BLANK_DEPTHS for side in SIDES)  # of one depth of equations
_CHUNK = 30  # blanks of one cell in a shard
_SURPLUS = 1.1  # made for one that is kept
_ATTEMPTS = 15  # derivations for one blank


class Completion(Preset):
    summary = "true equations of depth 8-13 with a blank of depth 0-2, and candidates with value classes"
    seed = 2018
    accepts = frozenset({"equations"})

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        equations, made = _equation_shards(options), set(parts.names())
        if any(shard.name not in made for shard in equations):
            return equations
        truths = {row["truth"] for shard in equations for row in parts.rows(shard.name)}
        candidates = Shard("candidates", {"truths": sorted(truths)})
        if candidates.name not in made:
            return [*equations, candidates]
        classes = list(parts.rows(candidates.name))
        fits = [Shard(_fits_of(s.name), {"blanks": list(parts.rows(s.name)), "candidates": classes}) for s in equations]
        return [*equations, candidates, *fits]

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        kind = shard.name.split("-")[0]
        return {"equations": _make_blanks, "candidates": _make_candidates, "fits": _make_fits}[kind](options, shard)

    def finish(self, options: Options, parts: Parts) -> Product:
        wanted = {_cell(depth, *cell): _per_cell(options) for depth in DEPTHS for cell in _CELLS}
        names = [_fits_of(shard.name) for shard in _equation_shards(options)]
        lines, notes = chosen((row for name in names for row in parts.rows(name)), wanted)
        candidates = list(parts.rows("candidates"))
        sizes = {
            "candidates by depth": counted(row["depth"] for row in candidates),
            "classes": len({row["class"] for row in candidates}),
            "blanks of the commonest class": max(Counter(line["class"] for line in lines).values(), default=0),
        }
        return Product({BLANKS_FILE: lines, CANDIDATES_FILE: candidates}, {**notes, **sizes})


PRESET = Completion()


def _per_cell(options: Options) -> int:
    return max(1, round((options.equations or EQUATIONS) / (len(DEPTHS) * len(_CELLS))))


def _equation_shards(options: Options) -> list[Shard]:
    wanted = _per_cell(options)
    chunks = -(-wanted // _CHUNK)
    work = {"wanted": int(_SURPLUS * wanted / chunks) + 1}
    return [
        Shard(f"equations-{depth:02d}-{chunk:03d}", {"depth": depth, **work}) for depth in DEPTHS for chunk in range(chunks)
    ]


def _fits_of(name: str) -> str:
    return name.replace("equations", "fits")


def _make_blanks(options: Options, shard: Shard) -> Iterator[Row]:
    """Blanks for every cell, the emptiest cell that an equation has a place for served first."""
    rng, counts = stream(options.seed, shard.name), dict.fromkeys(_CELLS, 0)
    wanted = shard.work["wanted"]
    for found in true_equations(rng, shard.work["depth"], 200 + _ATTEMPTS * wanted * len(_CELLS)):
        for cell in sorted((cell for cell in _CELLS if counts[cell] < wanted), key=counts.__getitem__):
            places = places_of_depth(found.equation, *cell)
            blank = places[int(rng.integers(len(places)))] if places else 0
            if blank and is_question(found.equation, blank):
                counts[cell] += 1
                yield _blank_row(found, blank, _cell(shard.work["depth"], *cell))
                break
        if min(counts.values()) == wanted:
            return


def _blank_row(found: TrueEquation, blank: int, cell: str) -> Row:
    truth = found.equation.subtree(blank).prefix()
    return {**found.row(), "truth": truth, "blank": blank, "cell": cell}


def _cell(depth: int, blank_depth: int, side: str) -> str:
    return f"depth {depth}, blank of depth {blank_depth}, {side}"


def _make_candidates(options: Options, shard: Shard) -> Iterator[Row]:
    """Leaves, expressions of depth 1, truths and near misses; whatever comes first keeps its place in a conflict."""
    filler, candidates = Filler(VARIABLES, stream(options.seed, shard.name)), CandidateSet()
    truths = [filler.pool.tree(Expression.from_prefix(text)) for text in shard.work["truths"]]
    for node in (*filler.simple(), *truths):
        candidates.add(node)
    deep = [node for node in truths if node.depth == max(BLANK_DEPTHS)]
    full = len(candidates) + len(deep) // 2
    for _ in range(10 * len(deep)):
        if len(candidates) == full:
            break
        missed = filler.near_miss(deep[int(filler.rng.integers(len(deep)))])
        if missed is not None:
            candidates.add(missed)
    return candidates.rows("f")


def _make_fits(options: Options, shard: Shard) -> Iterator[Row]:
    """The lines of the blanks, with the classes that are right for them."""
    pool = Pool()
    nodes = {pool.tree(Expression.parse(row["text"])): row["class"] for row in shard.work["candidates"]}
    fillings = Fillings(pool, {name: node for node, name in reversed(nodes.items())})
    for row in shard.work["blanks"]:
        value_class = nodes.get(pool.tree(Expression.from_prefix(row["truth"])), "")
        fit = fillings.fit(Equation.from_prefix(row["equation"]), row["blank"])
        yield question(row, value_class, fit, CANDIDATES_FILE)
