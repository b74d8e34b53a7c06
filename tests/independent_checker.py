"""A second opinion on labels: a separate evaluator at different points, which shares no code with the package `truth`.

Every value is computed in mpmath from the start, in 60 digits, with mpmath's own functions. What is smaller than 1e-24 is
zero and what is larger than 1e22 is undefined. Without snapping, rounding errors stay as they are, so that a value exactly on a
branch cut may come out on either side, and only points that are not real count.
"""

import random
from collections.abc import Iterable

import mpmath
from mpmath.ctx_mp import MPContext

from dgl_treestack import Equation, Example, Expression

CONTEXT = MPContext()
CONTEXT.dps = 60
NAMES = ("x", "y", "z", "w", "u")
NOISE_IN_GAPS = 1e-20  # equal sides come closer than that; sides that merely saturate do not
NOISE, LARGE = CONTEXT.mpf(10) ** -24, CONTEXT.mpf(10) ** 22


def draw_points(seed: int = 20240607) -> list[dict[str, mpmath.mpc]]:
    """Two real points, one of them partly negative, and four complex ones, half of them close to the origin."""
    source = random.Random(seed)
    reals = [[source.uniform(0.2, 1.2) for _ in NAMES], [source.uniform(-2.5, 2.5) for _ in NAMES]]
    sizes = (0.9, 0.9, 2.4, 2.4)
    complexes = [[size * complex(source.uniform(-1, 1), source.uniform(-0.7, 0.7)) for _ in NAMES] for size in sizes]
    return [dict(zip(NAMES, map(CONTEXT.mpmathify, values), strict=True)) for values in reals + complexes]


POINTS = draw_points()
MORE_POINTS = [point for seed in range(20) for point in draw_points(seed)]


class Undefined(Exception):
    """The expression has no value at the point."""


def steps(equation: Expression) -> tuple[list[tuple], list[int]]:
    """The distinct subtrees below the root, children first, as (name, text, children), and which ones the sides are."""
    number: dict[tuple, int] = {}
    done: list[int] = []
    for i in range(equation.size - 1, 0, -1):
        children = tuple(done.pop() for _ in range(equation.arities[i]))
        done.append(number.setdefault((equation.names[i], equation.texts[i], children), len(number)))
    return list(number), done[::-1]


def evaluate(listed: list[tuple], point: dict, snap: bool = True) -> list:
    """The values of the subtrees of `steps` at a point. snap: whether what is only noise becomes zero."""
    values: list = []
    for name, text, children in listed:
        value = leaf(name, text, point) if text is not None else operate(name, [values[child] for child in children], snap)
        values.append(tidy(value, NOISE if snap else 0))
    return values


def value_at(tree: Expression, point: dict) -> object:
    """The value of an expression at a point. Raises Undefined."""
    listed, (side, _) = steps(Equation.of(tree, tree))
    return evaluate(listed, point)[side]


def leaf(name: str, text: str, point: dict) -> object:
    if name == "Symbol":
        return point[text]
    if name in ("Pi", "Exp1"):
        return +CONTEXT.pi if name == "Pi" else +CONTEXT.e
    above, _, below = text.partition("/")
    return CONTEXT.mpf(above) / CONTEXT.mpf(below or "1")


def operate(name: str, values: list, snap: bool = True) -> object:
    try:
        if name == "Add":
            return values[0] + values[1]
        if name == "Mul":
            return values[0] * values[1]
        if name == "Pow":
            return power(*values, snap)
        return getattr(CONTEXT, name)(guarded(name, values[0]))
    except (ZeroDivisionError, OverflowError, ValueError):
        raise Undefined from None


def power(base: object, exponent: object, snap: bool) -> object:
    if base == 0:
        if exponent == 0:
            return CONTEXT.one
        if CONTEXT.re(exponent) > 0:
            return CONTEXT.zero
        raise Undefined
    growth = CONTEXT.re(exponent * CONTEXT.log(base))
    if growth > 50 or (snap and growth < -50):  # without snapping zero is 1e-60, and its square 1e-120
        raise Undefined
    return base**exponent


def guarded(name: str, x: object) -> object:
    """Refuse arguments at which a function explodes or is one to every digit we have."""
    if name in ("acot", "acoth", "asec", "acsc", "asech", "acsch") and x == 0:
        raise Undefined
    growing = CONTEXT.re(x) if name == "exp" or name.endswith("h") else CONTEXT.im(x)
    if name[0] != "a" and abs(growing) > 50:
        raise Undefined
    return x


def tidy(value: object, noise: object = NOISE) -> object:
    real, imaginary = value.real, value.imag
    if not (-LARGE < real < LARGE and -LARGE < imaginary < LARGE):  # NaN included
        raise Undefined
    real = CONTEXT.zero if -noise < real < noise else real
    return real if -noise < imaginary < noise or imaginary == 0 else CONTEXT.mpc(real, imaginary)


def gaps(equation: Expression, points: list[dict] = POINTS, snap: bool = True) -> list[float]:
    """The relative gap between the sides at each point where both are defined."""
    listed, (left_side, right_side) = steps(equation)
    gaps_at_points = []
    for point in points if "Symbol" in equation.names else points[:1]:
        try:
            values = evaluate(listed, point, snap)
        except Undefined:
            continue
        left, right = values[left_side], values[right_side]
        scale = max(abs(left), abs(right))
        gaps_at_points.append(float(abs(left - right) / scale) if scale > NOISE else 0.0)
    return gaps_at_points


def complaint(example: Example, snap: bool = True) -> str | None:
    """Why the label cannot be right, or None."""
    few, many = (points if snap else [point for point in points if point["x"].imag] for points in (POINTS, MORE_POINTS))
    relative_gaps = gaps(example.equation, few, snap)
    # equations that are undefined nearly everywhere need more looking, and those that hold at three of four points
    if len(relative_gaps) < 2 or (not snap and example.label == 0 and min(relative_gaps) < NOISE_IN_GAPS):
        relative_gaps += gaps(example.equation, many, snap)
    if len(relative_gaps) < (2 if "Symbol" in example.equation.names else 1):
        return f"{example.id}: only {len(relative_gaps)} defined points: {example.equation}"
    if example.label == 1 and max(relative_gaps) > 1e-15:
        return f"{example.id}: labelled true, gap {max(relative_gaps):.3g}: {example.equation}"
    if example.label == 0 and (
        max(relative_gaps) < 1e-6 or 2 * sum(gap > NOISE_IN_GAPS for gap in relative_gaps) < len(relative_gaps)
    ):
        return f"{example.id}: labelled false, gaps {sorted(relative_gaps)}: {example.equation}"
    return None


def complaints(examples: Iterable[Example], snap: bool = True) -> list[str]:
    """All complaints about labelled examples."""
    return [message for example in examples if (message := complaint(example, snap))]
