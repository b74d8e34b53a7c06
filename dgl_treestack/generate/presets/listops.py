"""ListOps (Nangia & Bowman 2018): lists of digits under MAX, MIN, MED and SM; the label is the value.

A node above level 20 is a list with probability 1/4, else a digit. A list has two to five entries and any of the operators
with equal probability. MED is the integer part of the median, SM the sum modulo 10. All trees are lists, and all are
different, in all folds together. Files named `binary-...` have the same lists as binary trees, as they are published.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from statistics import median

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
LEVELS, LIST, FEWEST, MOST = 20, 0.25, 2, 5  # of lists and digits, probability of a list, entries of a list

_SHARD = 5000  # trees
_SURPLUS = 1.25  # trees made per tree of the plan: some trees are made in several shards


class ListOps(Preset):
    summary = "ListOps: nested lists of digits, labelled by their value, 90,000 for training and 10,000 for the test"
    seed = 2018

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        scale, language = options.scale(sum(COUNTS.values())), find("listops")
        target = {fold: max(10, round(scale * count)) for fold, count in COUNTS.items()}
        total = sum(target.values())
        count = max(1, round(total / _SHARD))
        yield [Shard(f"{i:03d}", {"trees": round(_SURPLUS * total / count) + 10}) for i in range(count)]
        folds = np.repeat([*target], [*target.values()])
        plan = iter(stream(options.seed, "folds").permutation(folds).tolist())  # short lists are rare in later shards
        dealt = Deal(parts.rows(), {(): plan}, "lo", 1)
        files = {FILES[fold]: dealt.lines[fold] for fold in target}
        for fold in target:
            trees = [(line, binary(Expression.parse(line["text"], language))) for line in dealt.lines[fold]]
            lines = [to_dict(Example(tree, line["label"], line["id"], fold)) for line, tree in trees]
            files[f"binary-{FILES[fold]}"] = lines
        labels = Counter(line["label"] for lines in dealt.lines.values() for line in lines)
        return files, {"labels": dict(sorted(labels.items())), "missing": total - dealt.kept.total()}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        rng, texts, language = stream(options.seed, shard.name), set[str](), find("listops")
        while len(texts) < shard.work["trees"]:
            tree = Expression.from_nodes(draw(rng), language)
            text = str(tree)
            if text not in texts:
                texts.add(text)
                line = to_dict(Example(tree, str(evaluate(tree)), fold="train"))
                yield {"keys": [text], "cell": [], "lines": [line]}


PRESET = ListOps()


def draw(rng: np.random.Generator) -> list[Node]:
    """Return the nodes of a random list in pre-order."""
    operators, nodes, levels = list(FUNCTIONS), list[Node](), [1]  # levels of the nodes still to be drawn, the next one last
    while levels:
        level = levels.pop()
        if not nodes or (level < LEVELS and rng.random() < LIST):
            nodes.append((operators[rng.integers(len(operators))], None, int(rng.integers(FEWEST, MOST + 1))))
            levels += [level + 1] * nodes[-1][2]
        else:
            nodes.append(("Word", str(rng.integers(10)), 0))
    return nodes


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
