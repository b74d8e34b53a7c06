"""Equation completion with blanks of any depth from 1 to 13 and a thousand candidates each, after Mali et al. (2021).

`blanks.jsonl.gz` is as in `completion`, with equations of depth 8 to 14. Their number is the same for every depth of the blank,
and for one, two and three variables. A dozen blanks of one depth and number of variables share a file of candidates:

    for blank in read(folder / "blanks.jsonl.gz"):
        candidates = read(folder / blank.certificate["candidates"])

The file has 1,000 expressions over those variables, all of the depth of the blanks: the truths, rewritings of them by the
axioms, near misses of them (an operator or leaf exchanged, two subtrees swapped), subtrees of other true equations with near
misses of theirs, and random expressions. So depth, variables and notation do not identify the truth: for each blank, the truths
of the other blanks are wrong. If fewer expressions exist, as for depth 1, the remaining ones are one level deeper.
"""

from collections.abc import Generator, Iterator
from itertools import chain, zip_longest

from dgl_treestack.expression import Equation
from dgl_treestack.generate import blanks
from dgl_treestack.generate.nodes import Node, verdict_on
from dgl_treestack.generate.presets import Parts, Preset, Product, Row, SetOptions, Shard, pick, stream
from dgl_treestack.truth import POINTS

EQUATIONS, CANDIDATES = 500, 1000
BLANK_DEPTHS, VARIABLE_COUNTS = range(1, 14), range(1, len(blanks.VARIABLES) + 1)
SHALLOWEST, DEEPEST = 8, 14  # equations
NATURAL = 200  # candidates that are subtrees of other true equations
CANDIDATES_FILE = "candidates-{}.jsonl.gz"
_REWRITINGS, _NEAR_MISSES = 2, 8  # of each truth
_DRAWN_SHARE = 0.5  # of random expressions among the remaining candidates; the others are near misses of those subtrees
_CHUNK = 25  # blanks that share a file of candidates
_SURPLUS = 1.15  # blanks made per blank of the plan
_ATTEMPTS = 40  # derivations per equation

Blank = tuple[Equation, Row, Node]  # the equation, the row of its blank, and the truth in the pool of the shard


class CompletionDeep(Preset):
    summary = "true equations of depth 8-14 with a blank of depth 1-13, and 1,000 candidates each"
    seed = 2021

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        per_cell = max(1, round((options.equations or EQUATIONS) / (len(BLANK_DEPTHS) * len(VARIABLE_COUNTS))))
        chunks = -(-per_cell // _CHUNK)
        sizes = {"blanks": -(-per_cell // chunks), "candidates": CANDIDATES, "natural": NATURAL}
        shards = [
            Shard(f"{depth:02d}-{variables}-{chunk}", {"depth": depth, "variables": variables, **sizes})
            for depth in reversed(BLANK_DEPTHS)  # the slowest shards first, to use all processes
            for variables in VARIABLE_COUNTS
            for chunk in range(chunks)
        ]
        yield shards
        planned = {(shard.name,): sizes["blanks"] for shard in reversed(shards)}
        rows = (row for (name,) in planned for row in parts.rows(name) if "lines" in row)
        lines, notes = blanks.kept(rows, planned, "{}")
        candidates = {
            CANDIDATES_FILE.format(name): (row["candidate"] for row in parts.rows(name) if "candidate" in row)
            for (name,) in planned
        }
        notes["by depth of the equation"] = blanks.counted(line["depth"] for line in lines)
        return {blanks.BLANKS_FILE: lines, **candidates}, notes

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        filler = blanks.Filler(blanks.VARIABLES[: shard.work["variables"]], stream(options.seed, shard.name))
        questions, natural = _gather(filler, shard.work)
        # truths, expressions made from them, subtrees of other equations, then near misses of those and random expressions
        candidates, full = blanks.CandidateSet(), shard.work["candidates"]
        for _, _, truth in questions:
            candidates.add(truth)
        for equation, _, truth in questions:
            sides = [filler.pool.tree(side) for side in (equation.left, equation.right)]
            rewritings = [filler.rewriting(truth) for _ in range(_REWRITINGS)]
            near_misses = [filler.near_miss(truth) for _ in range(_NEAR_MISSES)]
            for node in (*rewritings, *near_misses):
                if node is not None and node not in sides:  # a copy of the other side would be a trivial answer
                    candidates.add(node)
        for node in natural:
            candidates.add(node)
        for attempt in range(30 * full):
            if len(candidates.members) >= full:
                break
            if natural and filler.rng.random() >= _DRAWN_SHARE:
                node = filler.near_miss(pick(natural, filler.rng))
            else:
                node = filler.drawn(shard.work["depth"] + (attempt > 10 * full))  # late attempts find few of this depth
            if node is not None:
                candidates.add(node)
        rows = [{**row, "cell": [shard.name]} for _, row, _ in questions]
        yield from blanks.questions(filler.pool, candidates.ordered, rows, CANDIDATES_FILE.format(shard.name))
        for line in candidates.rows(f"{shard.name}-"):
            yield {"candidate": line}


PRESET = CompletionDeep()


def _gather(filler: blanks.Filler, work: Row) -> tuple[list[Blank], list[Node]]:
    """Return the blanks of a shard, and subtrees of other true equations, all of the shard's depth.

    The depth of the equations changes from one to the next, among those that are large enough, and so does the blank's side.
    """
    questions, natural, full = list[Blank](), list[Node](), int(_SURPLUS * work["blanks"]) + 1
    depths = range(max(SHALLOWEST, work["depth"] + 1), DEEPEST + 1)
    attempts = _ATTEMPTS * (full + work["natural"]) // len(depths)
    streams = [blanks.true_equations(filler.rng, depth, attempts, work["variables"]) for depth in depths]
    side, other_side = "left", "right"
    for equation, row in filter(None, chain.from_iterable(zip_longest(*streams))):
        nodes = blanks.places_of_depth(equation, work["depth"], side) or blanks.places_of_depth(equation, work["depth"])
        if not nodes:
            continue
        node = pick(nodes, filler.rng)
        truth = filler.pool.tree(equation.subtree(node))
        if len(questions) == full:
            natural.append(truth)
        elif verdict_on(truth, truth).points == POINTS and blanks.is_question(equation, node):
            questions.append((equation, {**row, "blank": node}, truth))
            side, other_side = other_side, side
        if len(natural) == work["natural"]:
            break
    return questions, natural
