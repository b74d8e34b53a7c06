"""The points at which equations are evaluated: fixed ones, by which data are certified, and fresh ones for every equation."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dgl_treestack.expression import Expression

REAL_POINTS, WIDE_POINT = 8, 16
POINTS = 24
FRESH_POINTS = 42
FAR, VERY_FAR = (3.0, 50.0), (50.0, 1e4)  # sizes


@dataclass(frozen=True)
class Points:
    """A value of every variable at `count` points. of: name -> (count,) complex128."""

    count: int
    of: Callable[[str], np.ndarray]


@lru_cache(maxsize=4096)
def value_of(variable: str, point: int) -> complex:
    """Return the value of a variable at a point of the fixed set, to four decimals.

    Points 0 to 3 are positive, 4 to 7 real, the others complex.
    """
    return _near(*_uniform(f"{variable}:{point}")[:2], point)


FIXED = Points(POINTS, lambda variable: np.array([value_of(variable, point) for point in range(POINTS)]))


def fresh(equation: Expression, sets: int = 1) -> Points:
    """Return points that are drawn for one equation, from its text; other names of its variables do not change them.

    sets: how many times `FRESH_POINTS`. Of these the first 24 are near the origin, as the fixed ones; then four each are real
    and far, have a far real part, a far imaginary part, or both (`FAR`), and two are very far.
    """
    number_of_name: dict[str, int] = {}
    text = []
    for name, leaf in zip(equation.names, equation.texts, strict=True):
        if name == "Symbol" and leaf is not None:
            leaf = str(number_of_name.setdefault(leaf, len(number_of_name)))
        text.append(f"{name} {leaf}" if leaf is not None else name)
    key = hashlib.sha256("\n".join(text).encode()).hexdigest()
    count = sets * FRESH_POINTS
    return Points(count, lambda variable: np.array(_fresh_values(f"{key}:{number_of_name[variable]}", count)))


def _fresh_values(key: str, count: int) -> list[complex]:
    """Return the values of a variable at fresh points."""
    values = []
    for number in range(count):
        point = number % FRESH_POINTS
        first, second, third, fourth = _uniform(f"{key}:{number}")
        if point < POINTS:
            values.append(_near(first, second, point))
            continue
        low, high = VERY_FAR if point >= FRESH_POINTS - 2 else FAR
        far, other_far = (low * (high / low) ** share for share in (first, second))
        near, other_near = 0.15 + 2.35 * first, 0.15 + 1.1 * second
        real, imaginary = (
            (far, 0.0),  # by the kind of the point
            (far, other_near),
            (near, other_far),
            (far, other_far),
        )[(point - POINTS) % 4]
        real, imaginary = (-real if third < 0.5 else real), (-imaginary if imaginary and fourth < 0.5 else imaginary)
        values.append(complex(round(real, 4), round(imaginary, 4)))
    return values


def _near(first: float, second: float, point: int) -> complex:
    """Return a value near the origin, from two numbers between 0 and 1."""
    if point < 4:
        return complex(round(0.15 + 1.3 * first, 4), 0.0)
    if point < REAL_POINTS:
        return complex(round((0.3 + 2.4 * first) * (1 if second < 0.5 else -1), 4), 0.0)
    width, height = (3.0, 1.1) if point < WIDE_POINT else (6.2, 1.8)
    imaginary = (0.15 + height * abs(2 * second - 1)) * (1 if second < 0.5 else -1)
    return complex(round(width * (first - 0.5), 4), round(imaginary, 4))


def _uniform(text: str) -> tuple[float, float, float, float]:
    """Return four numbers from 0 to below 1 that a text decides."""
    digest = hashlib.sha256(text.encode()).digest()
    first, second, third, fourth = (int.from_bytes(digest[i : i + 4], "big") / 2**32 for i in (0, 4, 8, 12))
    return first, second, third, fourth
