"""Numeric equations: functions, sums, products and powers of numbers with two decimals, and numbers spelt in digits.

Two true equations f(a) = c and f(b) = d trade their results: f(a) = d and f(b) = c are wrong. Every argument, result,
operator and order of operands then occurs in as many true as false equations, alone and together with the operator. Argument
and result together, without the operator, give no clue either: only results that are plausible for the argument are traded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, repeat

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Expression
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.grow import BINARY, UNARY
from dgl_treestack.generate.numeric import (
    BITS,
    EXACT,
    LARGEST,
    NEAR,
    Evaluation,
    balanced,
    commuted,
    digits,
    evaluate,
    evaluations,
    number,
    spelt,
    tradable,
    trades,
)
from dgl_treestack.generate.presets import Options, Parts, Preset, Product, Row, Shard, deal, stream
from dgl_treestack.truth import judge_at_fixed_points

DECIMAL = "decimal"
KINDS = (*UNARY, *BINARY, DECIMAL)
EQUATIONS = 8000
SHARES = {**dict.fromkeys(UNARY, 0.02), **dict.fromkeys((*BINARY, DECIMAL), 0.125)}  # of the equations
FOLDS = ("train",) * 8 + ("validation", "test")
_LARGE = 1200  # equations in a shard of sums, products or powers
_DRAWN = 6  # pairs of operands drawn per trade

Judged = tuple[Expression, bool, Row | None]  # an equation, whether it holds, and its certificate; None: `truth` judges it


class Numeric(Preset):
    summary = "function evaluations and decimal trees, true and false, in numbers with two decimals"
    seed = 2018

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        shards = []
        for kind in KINDS:
            equations = round((options.equations or EQUATIONS) * SHARES[kind])
            trades_of_kind = max(1, round(equations / 4))
            count = max(1, round(equations / _LARGE)) if kind in BINARY else 1  # the other kinds have a bounded number
            for i in range(count):
                size = trades_of_kind // count + (i < trades_of_kind % count)
                shards.append(Shard(f"{kind}-{i:03d}", {"kind": kind, "trades": size}))
        return shards

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        rng, kind, count = stream(options.seed, shard.name), shard.work["kind"], shard.work["trades"]
        # A common first fold would put all equations of a small set into the training fold.
        start = int(rng.integers(len(FOLDS)))
        families = _decimals(rng, count) if kind == DECIMAL else _evaluations(kind, rng, count)
        for index, judged in enumerate(families):
            family, fold, lines = f"{shard.name}-{index}", FOLDS[(start + index) % len(FOLDS)], list[Row]()
            for i, (equation, holds, certificate) in enumerate(judged):  # equations 0 and 1 are a pair, 2 and 3 the next
                if certificate is None:
                    verdict = judge_at_fixed_points(equation)
                    certificate = {"verdict": verdict.verdict, "points": verdict.points}
                pair = f"{family}-{i // 2}"
                lines.append(to_dict(Example(equation, int(holds), f"{family}-{i}", fold, pair, family, certificate)))
            yield {"keys": [canonical_key(equation) for equation, *_ in judged], "cell": [kind], "lines": lines}

    def finish(self, options: Options, parts: Parts) -> Product:
        """Build the files, without families that have an equation in common with an earlier one."""
        dealt = deal(parts.rows(*parts.names()), {(kind,): repeat("") for kind in KINDS}, "")
        planned = Counter[str]()
        for shard in self.shards(options, parts):
            planned[shard.work["kind"]] += 4 * shard.work["trades"]
        made = {kind: dealt.kept[kind,] for kind in KINDS}
        short = {kind: {"wanted": planned[kind], "made": made[kind]} for kind in KINDS if made[kind] < planned[kind]}
        return Product(dealt.files(), {"dropped as duplicates": dealt.dropped["duplicate"], "fell short": short})


PRESET = Numeric()


def _evaluations(name: str, rng: np.random.Generator, count: int) -> Iterator[list[Judged]]:
    """Yield families of one trade: two evaluations with their own results and with each other's."""
    candidates = _drawn(name, rng, _DRAWN * count) if name in BINARY else evaluations(name)
    results = np.array([evaluation.result for evaluation in candidates], int)
    possible = trades(tradable(candidates), np.abs(results[:, None] - results) <= NEAR, rng)
    for i, j in islice(balanced(candidates, possible) if name in BINARY else possible, count):
        order = (rng.random(BITS) < 0.5).tolist()
        family: list[Judged] = []
        for a, b in ((i, i), (i, j), (j, j), (j, i)):
            evaluation, result = candidates[a], candidates[b].result
            operands = [number(argument, order[k]) for k, argument in enumerate(evaluation.arguments)]
            left, right = Expression.node(name, *operands), number(result, order[2])
            certificate = None  # a sum is exact, so it is judged like any other equation
            if name != "Add":
                error = round(float(abs(evaluation.value - EXACT.mpf(result) / 100)), 6)
                certificate = {"rounded": 2, "value": f"{float(evaluation.value):.6f}", "error": error}
            family.append((commuted("Equality", left, right, order[3]), result == evaluation.result, certificate))
        yield family


def _drawn(name: str, rng: np.random.Generator, count: int) -> Sequence[Evaluation]:
    """Return evaluations at random operands, at most one per pair of sizes: (-a)*b and a*(-b) would be the same equation."""
    by_sizes: dict[tuple[int, ...], Evaluation] = {}
    for _ in range(4 * count):
        first, second = (int(n) for n in rng.integers(-LARGEST, LARGEST + 1, 2))
        if name == "Pow":
            first = abs(first)
        evaluation = evaluate(name, first, second) if first and second else None
        if evaluation and len(by_sizes) < count:
            by_sizes.setdefault(tuple(sorted((abs(first), abs(second)))), evaluation)
    return list(by_sizes.values())


def _decimals(rng: np.random.Generator, count: int) -> Iterator[list[Judged]]:
    """Yield families of two trades: of two numbers with the same digits in another order, and of their negatives."""
    numbers = [n for n in range(1, LARGEST + 1) if n % 100]
    sorted_digits = np.array([sorted(digits(n)) for n in numbers])
    allowed = (sorted_digits[:, None] == sorted_digits[None]).all(axis=2) & ~np.eye(len(numbers), dtype=bool)
    for i, j in islice(trades(allowed, allowed, rng), -(-count // 2)):
        family: list[Judged] = []
        for sign in (1, -1):
            order = (rng.random(BITS) < 0.5).tolist()
            for a, b in ((i, i), (i, j), (j, j), (j, i)):
                left, right = spelt(sign * numbers[a], order), number(sign * numbers[b], order[6])
                family.append((commuted("Equality", left, right, order[7]), numbers[a] == numbers[b], None))
        yield family
