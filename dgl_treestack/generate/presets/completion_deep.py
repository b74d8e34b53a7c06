"""Equation completion with blanks of any depth from 1 to 13 and a thousand candidates each, after Mali et al. (2021).

`blanks.jsonl.gz` has true equations of depth 8 to 14, the truth in place: `blank` is the node to guess, `class` the value class
of what stands there. There are as many for every depth of the blank and for one, two and three variables.

A dozen blanks of one depth and number of variables share a file of candidates, named in their certificates:

    for blank in read(folder / "blanks.jsonl.gz"):
        candidates = read(folder / blank.certificate["candidates"])

The file has 1,000 expressions over those variables, all of the depth of the blanks: the truths, rewritings of them by the
axioms, near misses of them (an operator or leaf exchanged, two subtrees swapped), subtrees of other true equations with near
misses of theirs, and random expressions. So neither depth nor variables nor ways of writing give the truth away: to
each blank, the truths of the others are wrong. Where fewer exist, as for depth 1, the rest is one level deeper.

A candidate is right when the equation holds with it (`blanks.fills`): the class of the truth, and any other class that the
certificate lists under `right`. Those under `doubtful` (it holds at some points only, or is undefined) are left out of a
ranking, all others are wrong.
"""

from collections.abc import Iterator
from itertools import chain, zip_longest

from dgl_treestack.generate.completion.blanks import VARIABLES, TrueEquation, is_question, places_of_depth, true_equations
from dgl_treestack.generate.completion.candidates import CandidateSet
from dgl_treestack.generate.completion.fillers import Filler
from dgl_treestack.generate.completion.fitting import Fillings
from dgl_treestack.generate.completion.questions import BLANKS_FILE, chosen, counted, question
from dgl_treestack.generate.completion.value_classes import is_defined
from dgl_treestack.generate.nodes import Node
from dgl_treestack.generate.presets._contract import Options, Parts, Preset, Product, Row, Shard
from dgl_treestack.generate.random import stream

EQUATIONS, CANDIDATES = 500, 1000
BLANK_DEPTHS, VARIABLE_COUNTS = range(1, 14), range(1, len(VARIABLES) + 1)
SHALLOWEST, DEEPEST = 8, 14  # equations
NATURAL = 200  # candidates that are subtrees of other true equations
_REWRITINGS, _NEAR_MISSES = 2, 8  # of each truth
_DRAWN_SHARE = 0.5  # of what is then missing; the other half are near misses of those subtrees
_CHUNK = 25  # blanks that share a file of candidates
_SURPLUS = 1.15  # made for one that is kept
_ATTEMPTS = 40  # derivations for one equation


class CompletionDeep(Preset):
    summary = "true equations of depth 8-14 with a blank of depth 1-13, and 1,000 candidates each"
    seed = 2021
    accepts = frozenset({"equations"})

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        wanted = max(1, round((options.equations or EQUATIONS) / (len(BLANK_DEPTHS) * len(VARIABLE_COUNTS))))
        chunks = -(-wanted // _CHUNK)
        sizes = {"wanted": -(-wanted // chunks), "candidates": CANDIDATES, "natural": NATURAL}
        return [
            Shard(f"{depth:02d}-{variables}-{chunk}", {"depth": depth, "variables": variables, **sizes})
            for depth in reversed(BLANK_DEPTHS)  # the slowest first, so that no job is left alone with them
            for variables in VARIABLE_COUNTS
            for chunk in range(chunks)
        ]

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        filler = Filler(VARIABLES[: shard.work["variables"]], stream(options.seed, shard.name))
        blanks, natural = _gather(filler, shard.work)
        candidates = _candidates(filler, blanks, natural, shard.work)
        fillings = Fillings(filler.pool, candidates.classes)
        for found, place, truth in blanks:
            value_class = candidates.class_of(truth) if truth in candidates else ""
            made = {**found.row(), "blank": place, "cell": shard.name}
            yield question(made, value_class, fillings.fit(found.equation, place), _candidates_file(shard.name))
        for line in candidates.rows(f"{shard.name}-"):
            yield {"candidate": line}

    def finish(self, options: Options, parts: Parts) -> Product:
        wanted = {shard.name: shard.work["wanted"] for shard in reversed(self.shards(options, parts))}
        lines, notes = chosen((row for name in wanted for row in parts.rows(name) if "line" in row), wanted)
        files = {_candidates_file(name): _lines_of_candidates(parts, name) for name in wanted}
        depths = {"by depth of the equation": counted(line["depth"] for line in lines)}
        return Product({BLANKS_FILE: lines, **files}, {**notes, **depths})


PRESET = CompletionDeep()

Blank = tuple[TrueEquation, int, Node]  # the equation, the node, and the truth in the pool of the set


def _candidates_file(name: str) -> str:
    return f"candidates-{name}.jsonl.gz"


def _lines_of_candidates(parts: Parts, name: str) -> Iterator[Row]:
    return (row["candidate"] for row in parts.rows(name) if "candidate" in row)


def _gather(filler: Filler, work: Row) -> tuple[list[Blank], list[Node]]:
    """Blanks for the set, and subtrees of other true equations, all of the depth of the set and defined everywhere."""
    blanks: list[Blank] = []
    natural: list[Node] = []
    wanted, side, other = int(_SURPLUS * work["wanted"]) + 1, "left", "right"
    for found in _equations(filler, work["depth"], work["variables"], _ATTEMPTS * (wanted + work["natural"])):
        places = places_of_depth(found.equation, work["depth"], side) or places_of_depth(found.equation, work["depth"])
        if not places:
            continue
        place = filler.pick(places)
        truth = filler.pool.tree(found.equation.subtree(place))
        if len(blanks) < wanted:
            if is_defined(truth) and is_question(found.equation, place):
                blanks.append((found, place, truth))
                side, other = other, side
        else:
            natural.append(truth)
        if len(natural) == work["natural"]:
            break
    return blanks, natural


def _equations(filler: Filler, depth: int, variables: int, attempts: int) -> Iterator[TrueEquation]:
    """True equations that are deep enough, one of each depth in turn."""
    depths = range(max(SHALLOWEST, depth + 1), DEEPEST + 1)
    streams = [true_equations(filler.rng, each, attempts // len(depths), variables) for each in depths]
    return (found for found in chain.from_iterable(zip_longest(*streams)) if found is not None)


def _candidates(filler: Filler, blanks: list[Blank], natural: list[Node], work: Row) -> CandidateSet:
    """A full set: truths and what is made from them, then subtrees of other equations, then near misses and random ones."""
    candidates = CandidateSet()
    for _, _, truth in blanks:
        candidates.add(truth)
    for found, _, truth in blanks:
        sides = [filler.pool.tree(side) for side in (found.equation.left, found.equation.right)]
        rewritings = [filler.rewriting(truth) for _ in range(_REWRITINGS)]
        near = [filler.near_miss(truth) for _ in range(_NEAR_MISSES)]
        for node in (*rewritings, *near):
            if node is not None and node not in sides:  # to copy the other side is no answer
                candidates.add(node)
    for node in natural:
        candidates.add(node)
    _complete(candidates, filler, natural, work)
    return candidates


def _complete(candidates: CandidateSet, filler: Filler, natural: list[Node], work: Row) -> None:
    """Add near misses and random expressions until the set is full."""
    wanted = work["candidates"]
    for attempt in range(30 * wanted):
        if len(candidates) >= wanted:
            return
        if natural and filler.rng.random() >= _DRAWN_SHARE:
            node = filler.near_miss(filler.pick(natural))
        else:
            node = filler.drawn(work["depth"] + (attempt > 10 * wanted))  # by then hardly any are left of this depth
        if node is not None:
            candidates.add(node)
