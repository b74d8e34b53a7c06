"""ListOps (Nangia & Bowman 2018): lists of digits under MAX, MIN, MED and SM; the label is the value.

A node above level 20 is a list with probability 1/4, else a digit. A list has two to five entries and any of the operators
with equal probability. MED is the integer part of the median, SM the sum modulo 10. All trees are lists, and all are
different, in all folds together. Files named `binary-...` have the same lists as binary trees, as they are published.

With `far_lists`, which is their number, there are test files of longer lists, and of lists of 10 or 15 entries each (after Ray
Chowdhury & Caragea 2023); the other lists then have at most 100 tokens. Such lists hardly occur with a probability of 1/4, so
theirs is higher with few entries and lower with many, and lists of another length are drawn anew.
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator
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
LEVELS = 20  # of lists and digits


class Bounds(NamedTuple):
    """Which lists are drawn: tokens of the text, brackets included, probability of a list, entries of a list."""

    shortest: int = 0
    longest: float = math.inf
    chance: float = 0.25
    fewest: int = 2
    most: int = 5


PUBLISHED, SHORT = Bounds(), Bounds(longest=100)
FAR = {
    "200-300-tokens": Bounds(200, 300, 0.3),
    "500-600-tokens": Bounds(500, 600, 0.33),
    "900-1000-tokens": Bounds(900, 1000, 0.35),
    "10-arguments": Bounds(100, 1000, 0.11, 10, 10),
    "15-arguments": Bounds(100, 1000, 0.075, 15, 15),
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
        bounds = FAR[far] if far else SHORT if options.far_lists else PUBLISHED
        while len(texts) < shard.work["trees"]:
            if not (nodes := draw(rng, bounds)):
                continue
            tree = Expression.from_nodes(nodes, language)
            text = str(tree)
            if text not in texts:
                texts.add(text)
                line = to_dict(Example(tree, str(evaluate(tree)), fold="train"))
                yield {"keys": [text], "cell": [far] if far else [], "lines": [line]}


PRESET = ListOps()


def draw(rng: np.random.Generator, bounds: Bounds = PUBLISHED) -> list[Node]:
    """Return the nodes of a random list in pre-order, none if it is too short or too long."""
    operators, nodes, levels = list(FUNCTIONS), list[Node](), [1]  # levels of the nodes still to be drawn, the next one last
    tokens = 0
    while levels:
        level = levels.pop()
        if not nodes or (level < LEVELS and rng.random() < bounds.chance):
            operator = operators[rng.integers(len(operators))]
            entries = int(rng.integers(bounds.fewest, bounds.most + 1))
            nodes.append((operator, None, entries))
            levels += [level + 1] * entries
            tokens += 2
        else:
            nodes.append(("Word", str(rng.integers(10)), 0))
            tokens += 1
        if tokens + len(levels) > bounds.longest:
            return []
    return nodes if tokens >= bounds.shortest else []


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
