"""Numeric equations: functions, sums, products and powers of numbers with two decimals, and numbers spelt in digits.

Two true equations f(a) = c and f(b) = d trade their results: f(a) = d and f(b) = c are wrong. Every argument, result,
operator and order of operands then occurs in as many true as false equations, alone and together with the operator. Argument
and result together give no clue either: only results that are plausible for the argument are traded.

All numbers are integers, in hundredths. A result is rounded half to even; a value within 1e-9 of a tie is omitted. As a tree a
number is one leaf, or spelt out, 1.29 = 1 + 2*10**(-1) + 9*10**(-1*2), without a digit 0 after the point and a coefficient 1. A
minus sign is a product with -1. `order` holds random bits that define the order of the operands of sums and products.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, repeat

import mpmath
import numpy as np
from mpmath.ctx_mp import MPContext

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Expression
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.grow import BINARY, UNARY
from dgl_treestack.generate.presets import Deal, Parts, Preset, Product, Row, SetOptions, Shard, stream
from dgl_treestack.truth import judge_at_fixed_points

DECIMAL = "decimal"
KINDS = (*UNARY, *BINARY, DECIMAL)
EQUATIONS = 8000
SHARES = {**dict.fromkeys(UNARY, 0.02), **dict.fromkeys((*BINARY, DECIMAL), 0.125)}  # of the equations
FOLDS = ("train",) * 8 + ("validation", "test")
_LARGE = 1200  # equations in a shard of sums, products or powers
_DRAWN = 6  # pairs of operands drawn per trade

# An equation, whether it holds, and its certificate; None: `truth` judges it. Equations 0 and 1 are a pair, 2 and 3 the next.
Family = list[tuple[Expression, bool, Row | None]]

LARGEST = 314  # arguments and results are within 3.14, as in the papers
NEAREST, NEAR = 5, 30  # a wrong result is at least 0.05 off; up to 0.3 it is a near miss
BITS = 8  # of the order of a spelt number
_TIE = 1e-7  # in hundredths
_BINS = (80, 20)  # in hundredths

_EXACT = MPContext()
_EXACT.dps = 40
_OPERATIONS = {"Add": _EXACT.fadd, "Mul": _EXACT.fmul, "Pow": _EXACT.power}
_OPERATORS: dict[str, Callable] = {"Add": np.add, "Mul": np.multiply, "Pow": np.power}
# Operator -> the first operand as a function of the result and the second one, the second of the result and the first.
_INVERSES: dict[str, tuple[Callable, Callable]] = {
    "Add": (np.subtract, np.subtract),
    "Mul": (np.divide, np.divide),
    "Pow": (lambda result, exponent: result ** (1 / exponent), lambda result, base: np.log(result) / np.log(base)),
}

_MINUS_ONE = Expression.leaf("NegativeOne")
_INTEGERS = tuple(Expression.leaf("Integer", str(value)) for value in range(11))

Order = Sequence[bool]
Trade = tuple[int, int]  # (i, j): evaluation i with the result of j, and j with the result of i


@dataclass(frozen=True)
class Evaluation:
    """An operator at arguments, its value, and the result as printed."""

    name: str
    arguments: tuple[int, ...]
    value: mpmath.mpf
    result: int


class Numeric(Preset):
    summary = "function evaluations and decimal trees, true and false, in numbers with two decimals"
    seed = 2018

    def rounds(self, options: SetOptions, parts: Parts) -> Generator[list[Shard], None, Product]:
        """One round; families that have an equation in common with an earlier one are dropped."""
        shards, planned = list[Shard](), Counter[str]()
        for kind in KINDS:
            equations = round((options.equations or EQUATIONS) * SHARES[kind])
            trades_of_kind = max(1, round(equations / 4))
            count = max(1, round(equations / _LARGE)) if kind in BINARY else 1  # the other kinds have a bounded number
            for i in range(count):
                size = trades_of_kind // count + (i < trades_of_kind % count)
                shards.append(Shard(f"{kind}-{i:03d}", {"kind": kind, "trades": size}))
            planned[kind] = 4 * trades_of_kind
        yield shards
        dealt = Deal(parts.rows(), {(kind,): repeat("") for kind in KINDS}, "")
        short = {kind: {"wanted": planned[kind], "made": made} for kind in KINDS if (made := dealt.kept[kind,]) < planned[kind]}
        return dealt.files, {"dropped as duplicates": dealt.dropped["duplicate"], "fell short": short}

    def make(self, options: SetOptions, shard: Shard) -> Iterator[Row]:
        rng, kind, count = stream(options.seed, shard.name), shard.work["kind"], shard.work["trades"]
        # A common first fold would put all equations of a small set into the training fold.
        start = int(rng.integers(len(FOLDS)))
        families = _decimals(rng, count) if kind == DECIMAL else _evaluations(kind, rng, count)
        for index, judged in enumerate(families):
            family, fold, lines = f"{shard.name}-{index}", FOLDS[(start + index) % len(FOLDS)], list[Row]()
            for i, (equation, holds, certificate) in enumerate(judged):
                if certificate is None:
                    verdict = judge_at_fixed_points(equation)
                    certificate = {"verdict": verdict.verdict, "points": verdict.points}
                pair = f"{family}-{i // 2}"
                lines.append(to_dict(Example(equation, int(holds), f"{family}-{i}", fold, pair, family, certificate)))
            yield {"keys": [canonical_key(equation) for equation, *_ in judged], "cell": [kind], "lines": lines}


PRESET = Numeric()


def _evaluations(name: str, rng: np.random.Generator, count: int) -> Iterator[Family]:
    """Yield families of one trade: two evaluations with their own results and with each other's."""
    candidates: Sequence[Evaluation] = evaluations(name) if name in UNARY else ()
    if name in BINARY:  # random operands, at most once per pair of sizes: (-a)*b and a*(-b) would be the same equation
        by_sizes: dict[tuple[int, ...], Evaluation] = {}
        for _ in range(4 * _DRAWN * count):
            first, second = (int(n) for n in rng.integers(-LARGEST, LARGEST + 1, 2))
            if name == "Pow":
                first = abs(first)
            drawn = evaluate(name, first, second) if first and second else None
            if drawn and len(by_sizes) < _DRAWN * count:
                by_sizes.setdefault(tuple(sorted((abs(first), abs(second)))), drawn)
        candidates = list(by_sizes.values())
    results = np.array([evaluation.result for evaluation in candidates], int)
    possible = trades(tradable(candidates), np.abs(results[:, None] - results) <= NEAR, rng)
    for i, j in islice(balanced(candidates, possible) if name in BINARY else possible, count):
        order = (rng.random(BITS) < 0.5).tolist()
        family = Family()
        for a, b in ((i, i), (i, j), (j, j), (j, i)):
            evaluation, result = candidates[a], candidates[b].result
            operands = [number(argument, order[k]) for k, argument in enumerate(evaluation.arguments)]
            left, right = Expression.node(name, *operands), number(result, order[2])
            certificate = None  # a sum is exact, so it is judged like any other equation
            if name != "Add":
                error = round(float(abs(evaluation.value - _EXACT.mpf(result) / 100)), 6)
                certificate = {"rounded": 2, "value": f"{float(evaluation.value):.6f}", "error": error}
            family.append((commuted("Equality", left, right, order[3]), result == evaluation.result, certificate))
        yield family


def _decimals(rng: np.random.Generator, count: int) -> Iterator[Family]:
    """Yield families of two trades: of two numbers with the same digits in another order, and of their negatives."""
    numbers = [n for n in range(1, LARGEST + 1) if n % 100]
    sorted_digits = np.array([sorted(f"{n:03d}") for n in numbers])
    allowed = (sorted_digits[:, None] == sorted_digits[None]).all(axis=2) & ~np.eye(len(numbers), dtype=bool)
    for i, j in islice(trades(allowed, allowed, rng), -(-count // 2)):
        family = Family()
        for sign in (1, -1):
            order = (rng.random(BITS) < 0.5).tolist()
            for a, b in ((i, i), (i, j), (j, j), (j, i)):
                left, right = spelt(sign * numbers[a], order), number(sign * numbers[b], order[6])
                family.append((commuted("Equality", left, right, order[7]), numbers[a] == numbers[b], None))
        yield family


def evaluate(name: str, *arguments: int) -> Evaluation | None:
    """Return the evaluation, or None if the value is not real, too large or too close to a rounding tie."""
    function = _OPERATIONS[name] if name in _OPERATIONS else getattr(_EXACT, name)
    try:
        value = function(*(_EXACT.mpf(argument) / 100 for argument in arguments))
    except (ZeroDivisionError, ValueError):
        return None
    if not isinstance(value, _EXACT.mpf) or not abs(value) < 10:
        return None
    result = int(_EXACT.nint(100 * value))
    if abs(result) > LARGEST or abs(abs(100 * value - result) - 0.5) < _TIE:
        return None
    return Evaluation(name, arguments, value, result)


@lru_cache(maxsize=len(UNARY))
def evaluations(name: str) -> tuple[Evaluation, ...]:
    """Return all evaluations of a unary function."""
    attempts = (evaluate(name, argument) for argument in range(-LARGEST, LARGEST + 1))
    return tuple(evaluation for evaluation in attempts if evaluation)


def tradable(candidates: Sequence[Evaluation]) -> np.ndarray:
    """Return a table (i, j): whether i may take the result of j, which must have the same sign and be plausible, but wrong.

    For a unary function another function must have that result at the argument; otherwise a model could learn that no
    function has it. For an operator, each operand must have a substitute of the same sign that makes the result right.
    All candidates are of one operator or function.
    """
    if not candidates:
        return np.zeros((0, 0), bool)
    name, values = candidates[0].name, np.array([float(100 * evaluation.value) for evaluation in candidates])
    results = np.array([evaluation.result for evaluation in candidates])
    arguments = np.array([evaluation.arguments for evaluation in candidates])  # (n, arity)
    allowed = ((results[:, None] < 0) == (results < 0)) & (np.abs(values[:, None] - results) >= NEAREST)
    if name not in BINARY:
        curves = np.array([(*curve.arguments, curve.result) for other in UNARY for curve in evaluations(other)])
        has_curve = np.zeros((2 * LARGEST + 1,) * 2, bool)  # whether any unary function has this result at this argument
        has_curve[tuple(curves.T + LARGEST)] = True
        return allowed & has_curve[arguments + LARGEST, results + LARGEST]
    operands = arguments.T[:, :, None] / 100
    for slot in (0, 1):
        fixed = operands[1 - slot]
        with np.errstate(all="ignore"):
            substitute = np.round(_INVERSES[name][slot](results / 100, fixed), 2)
            pair = (substitute, fixed) if slot == 0 else (fixed, substitute)
            allowed &= np.abs(_OPERATORS[name](*pair) - results / 100) <= 0.005
        allowed &= (substitute != 0) & (np.abs(substitute) <= LARGEST / 100) & ((substitute < 0) == (operands[slot] < 0))
    return allowed


def trades(allowed: np.ndarray, preferred: np.ndarray, rng: np.random.Generator) -> list[Trade]:
    """Return disjoint trades that are allowed in both directions, in random order; if possible, half of them are preferred.
    Indices with the fewest partners choose first, so that as many as possible find a partner."""
    allowed = allowed & allowed.T
    free = np.ones(len(allowed), bool)
    pairs: list[Trade] = []
    for i in np.argsort(allowed.sum(axis=1) + rng.random(len(allowed)), kind="stable"):
        partners = np.flatnonzero(allowed[i] & free) if free[i] else np.empty(0, int)
        if len(partners):
            choice = partners[preferred[i, partners] == (rng.random() < 0.5)]
            j = int(rng.choice(choice if len(choice) else partners))
            free[[i, j]] = False
            pairs.append((int(i), j))
    return [pairs[k] for k in rng.permutation(len(pairs))]


def balanced(evaluations: Sequence[Evaluation], candidates: Iterable[Trade]) -> Iterator[Trade]:
    """Yield the trades that do not increase the imbalance of the trades before.

    The surplus of a cell, a bin of operands and a bin of results, is its count in true equations minus that in false ones.
    """
    surplus: Counter[tuple[int, ...]] = Counter()
    for trade in candidates:
        change: Counter[tuple[int, ...]] = Counter()
        for first, second in (trade, trade[::-1]):
            for slot, argument in enumerate(evaluations[first].arguments):
                for size in _BINS:
                    change[size, slot, argument // size, evaluations[first].result // size] += 1
                    change[size, slot, argument // size, evaluations[second].result // size] -= 1
        if sum(surplus[cell] * amount for cell, amount in change.items()) <= 0:
            surplus.update(change)
            yield trade


def number(hundredths: int, swapped: bool = False) -> Expression:
    """Return the number as a leaf of class Number with two printed decimals, times -1 if it is negative.

    >>> str(number(129)), str(number(-50)), number(200).texts
    ('1.29', '-0.50', ('2.00',))
    """
    leaf = Expression.leaf("Number", f"{abs(hundredths) // 100}.{abs(hundredths) % 100:02d}")
    return leaf if hundredths >= 0 else commuted("Mul", _MINUS_ONE, leaf, swapped)


def spelt(hundredths: int, order: Order) -> Expression:
    """Return the number as a sum of digits times powers of ten, the sum times -1 if it is negative."""
    integer_part, *decimals = map(int, f"{abs(hundredths):03d}")
    terms = [_INTEGERS[integer_part]]
    exponents = _MINUS_ONE, commuted("Mul", _MINUS_ONE, _INTEGERS[2], order[1])
    for digit, exponent, swapped in zip(decimals, exponents, (order[0], order[2]), strict=True):
        if digit:
            power = Expression.node("Pow", _INTEGERS[10], exponent)
            terms.append(power if digit == 1 else commuted("Mul", _INTEGERS[digit], power, swapped))
    if len(terms) == 3 and order[5]:  # the two decimals first
        terms[1:] = [commuted("Add", terms[1], terms[2], order[3])]
        order = (*order[:3], order[4], *order[4:])
    tree = terms[0]
    for term, swapped in zip(terms[1:], order[3:5], strict=False):
        tree = commuted("Add", tree, term, swapped)
    return tree if hundredths >= 0 else commuted("Mul", _MINUS_ONE, tree, order[6])


def commuted(name: str, first: Expression, second: Expression, swapped: bool) -> Expression:
    """Return an operator over two operands, in reverse order if swapped."""
    return Expression.node(name, second, first) if swapped else Expression.node(name, first, second)
