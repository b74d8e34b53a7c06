"""ListOps (Nangia & Bowman 2018): lists of digits under MAX, MIN, MED and SM; the label is the value.

A node above level 20 is a list with probability 1/4, else a digit. A list has two to five entries and any of the operators
with equal probability. MED is the integer part of the median, SM the sum modulo 10. All trees are lists, and all are
different, in all folds together. Files named `binary-...` have the same lists as binary trees, as they are published.

With `far_lists`, which is their number, there are test files of longer lists, and of lists with up to 10 or 15 entries; the
other lists then have at most 100 tokens. The files have the distributions of published programs, which draw lists until enough
are of the wanted length: that of Havrylov et al. 2019 (facebookresearch/latent-treelstm), more than 200, 500 or 900 tokens and
less than 300, 600 or 1000; and that of Ray Chowdhury & Caragea 2023 (JRC1995/BeamTreeRecursiveCells), two to 10 or two to 15
entries, 9 levels, 100 to 1000 tokens. The latter may differ from their paper's lists, whose exact files are not in the program.
"""

import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import accumulate
from operator import mul
from statistics import median
from typing import NamedTuple

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Expression
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import Node
from dgl_treestack.generate.presets import FILES, Deal, Parts, Preset, Product, Row, SetOptions, Shard, stream

COUNTS = {"test": 10_000, "train": 90_000, "validation": 5_000}  # the paper has no validation fold
FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "MAX": max,
    "MIN": min,
    "MED": lambda values: int(median(values)),
    "SM": lambda values: sum(values) % 10,
}
LIST = 0.25  # probability
LEVELS = 20  # of lists and digits
FEWEST, MOST = 2, 5  # entries
SHORT = 100  # tokens


class Bounds(NamedTuple):
    """Which lists a test file has: tokens of the text, brackets included, most entries of a list, levels."""

    shortest: int
    longest: int
    most: int = MOST
    levels: int = LEVELS


FAR = {
    "200-300-tokens": Bounds(201, 299),
    "500-600-tokens": Bounds(501, 599),
    "900-1000-tokens": Bounds(901, 999),
    "10-arguments": Bounds(100, 1000, 10, 9),
    "15-arguments": Bounds(100, 1000, 15, 9),
}

_SHARD = 5000  # trees
_FAR_SHARD = 500  # trees that take longer
_SURPLUS = 1.25  # trees made per tree of the plan: some trees are made in several shards


class ListOps(Preset):
    summary = "ListOps: nested lists of digits, labelled by their value, 90,000 for training and 10,000 for the test"
    seed = 2018
    accepts = frozenset({"equations", "far_lists"})

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        scale, language = options.scale(sum(COUNTS.values())), find("listops")
        target = {fold: max(10, round(scale * count)) for fold, count in COUNTS.items()}
        total = sum(target.values())
        count = max(1, round(total / _SHARD))
        shards = [Shard(f"{i:03d}", {"trees": round(_SURPLUS * total / count) + 10}) for i in range(count)]
        parts_of_file = -(-options.far_lists // _FAR_SHARD)
        work = {"trees": -(-options.far_lists // max(1, parts_of_file))}
        far = [Shard(f"{name}-{i:03d}", {**work, "far": name}) for name in FAR for i in range(parts_of_file)]
        yield shards + far
        folds = np.repeat([*target], [*target.values()])
        plan = iter(stream(options.seed, "folds").permutation(folds).tolist())  # short lists are rare in later shards
        rows = (row for row in parts.rows() if not row["cell"])
        dealt = Deal(rows, {(): plan}, "lo", 1)
        files = {FILES[fold]: dealt.lines[fold] for fold in target}
        for name in FAR if options.far_lists else ():
            rows = (row for row in parts.rows() if row["cell"] == [name])
            of_file = Deal(rows, {(name,): iter(["test"] * options.far_lists)}, f"lo-{name}-", 1)
            files[f"test-{name}.jsonl.gz"] = of_file.lines["test"]
        for file, lines in list(files.items()):
            trees = [(line, binary(Expression.parse(line["text"], language))) for line in lines]
            files[f"binary-{file}"] = [to_dict(Example(tree, line["label"], line["id"], line["fold"])) for line, tree in trees]
        labels = Counter(line["label"] for lines in dealt.lines.values() for line in lines)
        return files, {"labels": dict(sorted(labels.items())), "missing": total - dealt.kept.total()}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        rng, texts, language = stream(options.seed, shard.name), set[str](), find("listops")
        far = shard.work.get("far", "")
        longest = SHORT if options.far_lists else math.inf
        while len(texts) < shard.work["trees"]:
            if not (nodes := draw_far(rng, FAR[far]) if far else draw(rng, longest)):
                continue
            tree = Expression.from_nodes(nodes, language)
            text = str(tree)
            if text not in texts:
                texts.add(text)
                line = to_dict(Example(tree, str(evaluate(tree)), fold="train"))
                yield {"keys": [text], "cell": [far] if far else [], "lines": [line]}


PRESET = ListOps()


def draw(rng: np.random.Generator, longest: float = math.inf) -> list[Node]:
    """Return the nodes of a random list in pre-order, none if it has more tokens than `longest`."""
    operators, nodes, levels = list(FUNCTIONS), list[Node](), [1]  # levels of the nodes still to be drawn, the next one last
    tokens = 0
    while levels:
        level = levels.pop()
        if not nodes or (level < LEVELS and rng.random() < LIST):
            operator = operators[rng.integers(len(operators))]
            entries = int(rng.integers(FEWEST, MOST + 1))
            nodes.append((operator, None, entries))
            levels += [level + 1] * entries
            tokens += 2
        else:
            nodes.append(("Word", str(rng.integers(10)), 0))
            tokens += 1
        if tokens + len(levels) > longest:
            return []
    return nodes


def draw_far(rng: np.random.Generator, bounds: Bounds) -> list[Node]:
    """Return the nodes of a random list in pre-order, none if it is too short or too long.

    A list of N tokens is drawn with z^N / constant times its probability in `draw`, see `weighted`, and kept with probability
    z^(shortest - N), which is that of N <= shortest + E / log z for an exponential variable E. So every list within the bounds
    is as likely as if lists were drawn until one is within them, of which the third file needs 17,000 for one.
    """
    cumulative, z = tilted(bounds)
    longest = min(bounds.longest, bounds.shortest + rng.exponential() / math.log(z))
    arities, levels, tokens = list[int](), [0], 0
    while levels:
        level = levels.pop()
        kind = bisect(cumulative[level], rng.random())
        arity = kind + FEWEST - 1 if kind else 0
        arities.append(arity)
        levels += [level + 1] * arity
        tokens += 2 if arity else 1
        if tokens + len(levels) > longest:
            return []
    if tokens < bounds.shortest:
        return []
    operators = list(FUNCTIONS)
    return [
        (operators[rng.integers(len(operators))], None, arity) if arity else ("Word", str(rng.integers(10)), 0)
        for arity in arities
    ]


@cache
def tilted(bounds: Bounds) -> tuple[list[list[float]], float]:
    """Return the probabilities of nodes, and the z > 1 with which most lists are kept: that of `shortest` tokens on average."""
    low, high = 1.0, 2.0
    for _ in range(30):
        z = (low + high) / 2
        low, high = (z, high) if weighted(bounds, z)[1] < bounds.shortest else (low, z)
    return weighted(bounds, high)[0], high


def weighted(bounds: Bounds, z: float) -> tuple[list[list[float]], float]:
    """Return, level by level, cumulative probabilities of a digit and of lists of 2, 3, ... entries; and the mean of tokens.

    A tree of N tokens has z^N times its probability: with p = 1/4, n = most - 1 and y = z at the last level,

        y_l = (1 - p) z + p z^2 / n sum over k from 2 to most of y_(l+1)^k

    and a node is one of these summands with the probability summand / y_l. At the root there is no digit.
    """
    rows, y, mean = [[1.0]], z, 1.0
    for level in reversed(range(bounds.levels - 1)):
        powers = [*accumulate([y] * bounds.most, mul)][FEWEST - 1 :]
        lists = [LIST / len(powers) * z * z * power for power in powers]
        digit = (1 - LIST) * z if level else 0.0
        *_, y = sums = [*accumulate([digit, *lists])]
        rows.append([part / y for part in sums])
        mean = (digit + sum(part * (2 + k * mean) for k, part in enumerate(lists, FEWEST))) / y
    return rows[::-1], mean


def binary(tree: Expression) -> Expression:
    """Return a list as a left-branching binary tree: ( ( ( [MAX 2 ) 9 ) ] ) for [MAX 2 9 ]."""
    entries = iter([arity for arity in tree.arities if arity])
    nodes: list[Node] = []
    for token in str(tree).split():
        if token.startswith("["):
            nodes += [("compose", None, 2)] * (next(entries) + 1)
        nodes.append(("Word", token, 0))
    return Expression.from_nodes(nodes, find("listops_binary"))


def evaluate(tree: Expression) -> int:
    """Return the value of a list, 0 to 9."""
    values: list[int] = []  # of the subtrees to the right of a node, the nearest last
    for name, text, arity in zip(tree.names[::-1], tree.texts[::-1], tree.arities[::-1], strict=True):
        values.append(int(text) if text is not None else FUNCTIONS[name]([values.pop() for _ in range(arity)]))
    return values[0]
