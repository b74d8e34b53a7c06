"""Numeric equations: functions, sums, products and powers of numbers with two decimals, and numbers spelt in digits.

Two true equations f(a) = c and f(b) = d trade their results: f(a) = d and f(b) = c are wrong. Every argument, result,
operator and order of operands then stands in as many true as false equations, alone and together with the operator. What
is left, argument and result without the operator, is covered by trading only results that could belong to the argument.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice

import numpy as np

from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.lines import to_dict
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.numeric.decimals import BITS, Order, commuted, digits, number, spelt
from dgl_treestack.generate.numeric.evaluations import BINARY, LARGEST, Evaluation, evaluate, evaluations, near, tradable
from dgl_treestack.generate.numeric.trades import balanced, trades
from dgl_treestack.generate.pieces import UNARY
from dgl_treestack.generate.presets import Options, Parts, Preset, Product, Row, Shard
from dgl_treestack.generate.random import stream
from dgl_treestack.truth import judge

DECIMAL = "decimal"
KINDS = (*UNARY, *BINARY, DECIMAL)
EQUATIONS = 8000
SHARES = {**dict.fromkeys(UNARY, 0.02), **dict.fromkeys((*BINARY, DECIMAL), 0.125)}  # of the equations
FOLDS = ("train",) * 8 + ("validation", "test")
_LARGE = 1200  # equations in a shard of sums, products or powers
_DRAWN = 6  # pairs of operands drawn for one that is needed


class Numeric(Preset):
    summary = "function evaluations and decimal trees, true and false, in numbers with two decimals"
    seed = 2018
    accepts = frozenset({"equations"})

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        total = options.equations or EQUATIONS
        return [shard for kind in KINDS for shard in _shards(kind, round(total * SHARES[kind]))]

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        rng = stream(options.seed, shard.name)
        kind, trades = shard.work["kind"], shard.work["trades"]
        families = _decimals(rng, trades) if kind == DECIMAL else _evaluations(kind, rng, trades)
        start = int(rng.integers(len(FOLDS)))  # or a small set would be all training
        for index, family in enumerate(families):
            for row in family:
                yield {**row, "kind": kind, "family": f"{shard.name}-{index}", "fold": FOLDS[(start + index) % len(FOLDS)]}

    def finish(self, options: Options, parts: Parts) -> Product:
        files: dict[str, list[Row]] = {f"{fold}.jsonl.gz": [] for fold in dict.fromkeys(FOLDS)}
        seen: set[str] = set()
        made: Counter[str] = Counter()
        dropped = 0
        for family in _families(parts):
            keys = {row["key"] for row in family}
            if keys & seen or len(keys) < len(family):
                dropped += len(family)
                continue
            seen |= keys
            made[family[0]["kind"]] += len(family)
            files[f"{family[0]['fold']}.jsonl.gz"] += [_line(row, i) for i, row in enumerate(family)]
        return Product(files, {"dropped as duplicates": dropped, "fell short": _short(self.shards(options, parts), made)})


def _families(parts: Parts) -> Iterator[list[Row]]:
    for name in parts.names():
        for _, rows in groupby(parts.rows(name), key=lambda row: row["family"]):
            yield list(rows)


def _short(shards: Sequence[Shard], made: Mapping[str, int]) -> Row:
    """Kinds of which there are fewer equations than wanted."""
    wanted: Counter[str] = Counter()
    for shard in shards:
        wanted[shard.work["kind"]] += 4 * shard.work["trades"]
    return {kind: {"wanted": wanted[kind], "made": made[kind]} for kind in KINDS if made[kind] < wanted[kind]}


def _shards(kind: str, equations: int) -> list[Shard]:
    """Shards of whole trades; a unary function and the digits have one, since what they can make is bounded."""
    trades = max(1, round(equations / 4))
    count = max(1, round(equations / _LARGE)) if kind in BINARY else 1
    sizes = [trades // count + (i < trades % count) for i in range(count)]
    return [Shard(f"{kind}-{i:03d}", {"kind": kind, "trades": size}) for i, size in enumerate(sizes)]


def _line(row: Row, index: int) -> Row:
    """A line of the file. Of four equations in a row the first two are a pair, and the last two."""
    example = Example(
        equation=Equation.from_prefix(row["prefix"]),
        label=row["label"],
        id=f"{row['family']}-{index}",
        fold=row["fold"],
        pair=f"{row['family']}-{index // 2}",
        family=row["family"],
        certificate=row["certificate"],
    )
    return to_dict(example)


# Evaluations


def _evaluations(name: str, rng: np.random.Generator, count: int) -> Iterator[list[Row]]:
    found = _drawn(name, rng, _DRAWN * count) if name in BINARY else evaluations(name)
    possible = trades(tradable(found), near(found), rng)
    for i, j in islice(balanced(found, possible) if name in BINARY else possible, count):
        order = (rng.random(BITS) < 0.5).tolist()
        members = [(found[a], found[b].result) for a, b in ((i, i), (i, j), (j, j), (j, i))]
        yield [_evaluation_row(evaluation, result, order) for evaluation, result in members]


def _drawn(name: str, rng: np.random.Generator, count: int) -> Sequence[Evaluation]:
    """Evaluations at random operands, each pair of sizes once: (-a)*b and a*(-b) would be the same equation."""
    found: dict[tuple[int, ...], Evaluation] = {}
    for _ in range(4 * count):
        first, second = (int(n) for n in rng.integers(-LARGEST, LARGEST + 1, 2))
        if name == "Pow":
            first = abs(first)
        evaluation = evaluate(name, first, second) if first and second else None
        if evaluation and len(found) < count:
            found.setdefault(tuple(sorted((abs(first), abs(second)))), evaluation)
    return list(found.values())


def _evaluation_row(evaluation: Evaluation, result: int, order: Order) -> Row:
    operands = [number(argument, order[i]) for i, argument in enumerate(evaluation.arguments)]
    equation = _equation(Expression.node(evaluation.name, *operands), number(result, order[2]), order[3])
    if evaluation.name == "Add":  # exact, so it is judged like any other equation
        return _row(equation, result == evaluation.result, _judged(equation))
    error = evaluation.error(result)
    value = {"rounded": 2, "value": f"{float(evaluation.value):.6f}", "error": round(float(error), 6)}
    return _row(equation, result == evaluation.result, value)


# Digits


def _decimals(rng: np.random.Generator, count: int) -> Iterator[list[Row]]:
    """Families of two trades: of a pair of numbers that are anagrams of one another, and of their negatives."""
    found = [n for n in range(1, LARGEST + 1) if n % 100]
    anagrams = np.array([sorted(digits(n)) for n in found])
    may = (anagrams[:, None] == anagrams[None]).all(axis=2) & ~np.eye(len(found), dtype=bool)
    for i, j in islice(trades(may, may, rng), -(-count // 2)):
        family = []
        for sign in (1, -1):
            order = (rng.random(BITS) < 0.5).tolist()
            for a, b in ((i, i), (i, j), (j, j), (j, i)):
                family.append(_decimal_row(sign * found[a], sign * found[b], order))
        yield family


def _decimal_row(value: int, printed: int, order: Order) -> Row:
    equation = _equation(spelt(value, order), number(printed, order[6]), order[7])
    return _row(equation, value == printed, _judged(equation))


def _equation(tree: Expression, result: Expression, swapped: bool) -> Expression:
    return commuted("Equality", tree, result, swapped)


def _judged(equation: Expression) -> Row:
    verdict = judge(equation)
    return {"verdict": verdict.verdict, "points": verdict.points}


def _row(equation: Expression, holds: bool, certificate: Row) -> Row:
    key = canonical_key(equation)
    return {"key": key, "prefix": equation.prefix(), "label": int(holds), "certificate": certificate}


PRESET = Numeric()
