"""Propositional logic (Bowman, Manning & Potts 2015): the relation between two formulas, by truth tables.

The size of a pair is the number of operators of its larger formula, up to 12. Formulas are drawn by rules of this package: an
operator is `not` with probability 0.3, else `and` or `or` with the remaining operators split at random; a pair has at most
four of the six variables, and the smaller formula has any size up to that of the larger. Training and validation have sizes
0-6, the test 0-12, with the published number of pairs of every size. No pair is in two folds, and no formula is true
everywhere or false everywhere. Over the 64 assignments:

    =   equal              <   left implies right      >   right implies left       |   never both, sometimes neither
    ^   negations          v   always one, sometimes both                           #   none of these
"""

from collections import Counter
from collections.abc import Generator, Iterator

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.language import find
from dgl_treestack.generate.presets import Cell, Deal, Parts, Preset, Product, Row, SetOptions, Shard, stream

TEST = (6, 410, 2198, 4104, 5361, 6027, 5816, 4707, 3347, 2230, 1444, 864, 853)  # pairs by size
TRAIN = (30, 2319, 12451, 23252, 30373, 34152, 32952)
VALIDATION_SHARE = 0.05  # of the size of the training fold, besides it, for sizes from 1 on: size 0 has 36 pairs in all
VARIABLES = "abcdef"
PER_PAIR = 4  # variables
NOT = 0.3  # probability that an operator of a formula is `not`
WORLDS = 2**64 - 1  # a truth table is a number with a bit per assignment
# Bit i of the table of variable k is bit k of i.
TABLES = {name: sum(1 << i for i in range(64) if i >> k & 1) for k, name in enumerate(VARIABLES)}

_SHARD = 5000  # pairs


class Logic(Preset):
    summary = "propositional logic: the relation of two formulas, training with up to 6 operators, test with up to 12"
    seed = 2015

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        """Small sizes, of which there are few pairs, have one shard each; larger sizes several with some surplus."""
        shards, plan, planned, rng = list[Shard](), dict[Cell, Iterator[str]](), 0, stream(options.seed, "folds")
        for size, quota in enumerate(quotas(options)):
            total = sum(quota.values())
            count = 1 if size < 3 else -(-total // _SHARD)
            pairs = total if count == 1 else round(1.02 * total / count) + 10
            shards += [Shard(f"{size:02d}-{i:03d}", {"size": size, "pairs": pairs}) for i in range(count)]
            folds = np.repeat([*quota], [*quota.values()])
            plan[size,] = iter(rng.permutation(folds).tolist())  # pairs of short formulas are rare in later shards
            planned += total
        yield shards
        dealt, shares = Deal(parts.rows(), plan, "pl", 1), {}
        for fold, lines in dealt.lines.items():
            counts = Counter(line["label"] for line in lines)
            shares[fold] = {label: f"{100 * count / counts.total():.1f} %" for label, count in counts.most_common()}
        return dealt.files, {"relations": shares, "missing": planned - dealt.kept.total()}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        rng, size, language = stream(options.seed, shard.name), shard.work["size"], find("logic")
        pairs = set[tuple[str, str]]()
        while len(pairs) < shard.work["pairs"]:
            names = rng.permutation(list(VARIABLES))[:PER_PAIR].tolist()
            sizes = [size, int(rng.integers(size + 1))]
            rng.shuffle(sizes)
            left, right = (draw(rng, operators, names) for operators in sizes)
            pair = left[0], right[0]
            if pair not in pairs and all(table not in (0, WORLDS) for _, table in (left, right)):
                pairs.add(pair)
                equation = Equation.of(*(Expression.from_prefix(text, language) for text in pair))
                line = to_dict(Example(equation, relation(left[1], right[1]), fold="train"))
                yield {"keys": [" = ".join(pair)], "cell": [size], "lines": [line]}


PRESET = Logic()


def quotas(options: SetOptions) -> list[dict[str, int]]:
    """Return, by size, the number of pairs of every fold."""
    scale = min(1.0, options.scale(sum(TEST) + sum(TRAIN)))
    table = []
    for size, count in enumerate(TEST):
        quota = {"test": max(2, round(scale * count))}
        if size < len(TRAIN):
            quota["train"] = max(2, round(scale * TRAIN[size]))
            if size:
                quota["validation"] = max(2, round(VALIDATION_SHARE * quota["train"]))
        table.append(quota)
    return table


def draw(rng: np.random.Generator, operators: int, names: list[str]) -> tuple[str, int]:
    """Return a random formula with a number of operators, as prefix text, and its truth table."""
    tokens: list[str] = []
    pending = [operators]  # operators of the subformulas that are still to be drawn, the next one last
    while pending:
        count = pending.pop()
        if not count:
            tokens.append(f"Word:{names[rng.integers(len(names))]}")
        elif rng.random() < NOT:
            tokens.append("not")
            pending.append(count - 1)
        else:
            tokens.append("and" if rng.random() < 0.5 else "or")
            left = int(rng.integers(count))
            pending += [count - 1 - left, left]
    tables: list[int] = []
    for token in reversed(tokens):
        if token == "not":
            tables.append(WORLDS ^ tables.pop())
        elif token in ("and", "or"):
            left_table, right_table = tables.pop(), tables.pop()
            tables.append(left_table & right_table if token == "and" else left_table | right_table)
        else:
            tables.append(TABLES[token.removeprefix("Word:")])
    return " ".join(tokens), tables[0]


def relation(left: int, right: int) -> str:
    """Return the relation of two truth tables, neither of them of a formula that is true or false everywhere."""
    if left == right:
        return "="
    if left == WORLDS ^ right:
        return "^"
    if not left & ~right:
        return "<"
    if not right & ~left:
        return ">"
    if not left & right:
        return "|"
    return "v" if left | right == WORLDS else "#"
