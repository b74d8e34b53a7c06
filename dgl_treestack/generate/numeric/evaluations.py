"""Evaluations of functions at numbers with two decimals, and which two of them may trade their results.

All numbers are whole hundredths. A result is rounded half to even; a value within 1e-9 of a tie is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import mpmath
import numpy as np
from mpmath.ctx_mp import MPContext

from dgl_treestack.generate.pieces import UNARY

LARGEST = 314  # arguments and results are within 3.14, as in the papers
NEAREST, NEAR = 5, 30  # a wrong result is at least 0.05 off; up to 0.3 it is a near miss
_TIE = 1e-7  # in hundredths

_EXACT = MPContext()
_EXACT.dps = 40
_OPERATIONS = {"Add": _EXACT.fadd, "Mul": _EXACT.fmul, "Pow": _EXACT.power}
BINARY = tuple(_OPERATIONS)
_OPERATORS: dict[str, Callable] = {"Add": np.add, "Mul": np.multiply, "Pow": np.power}
# Operator -> its first operand from the result and the second one, its second from the result and the first.
_INVERSES: dict[str, tuple[Callable, Callable]] = {
    "Add": (np.subtract, np.subtract),
    "Mul": (np.divide, np.divide),
    "Pow": (lambda result, exponent: result ** (1 / exponent), lambda result, base: np.log(result) / np.log(base)),
}


@dataclass(frozen=True)
class Evaluation:
    """An operator at arguments, its value, and the result as printed."""

    name: str
    arguments: tuple[int, ...]
    value: mpmath.mpf
    result: int

    def error(self, result: int) -> mpmath.mpf:
        """How far a printed result is from the value."""
        return abs(self.value - _EXACT.mpf(result) / 100)


def evaluate(name: str, *arguments: int) -> Evaluation | None:
    """The evaluation, or None where the value is not real, too large or too close to a rounding tie."""
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
    """Every evaluation of a unary function."""
    found = (evaluate(name, argument) for argument in range(-LARGEST, LARGEST + 1))
    return tuple(evaluation for evaluation in found if evaluation)


@lru_cache(maxsize=1)
def curves() -> np.ndarray:
    """Whether some unary function has a result at an argument: (argument, result) + LARGEST -> bool."""
    table = np.zeros((2 * LARGEST + 1,) * 2, bool)
    for name in UNARY:
        for evaluation in evaluations(name):
            table[evaluation.arguments[0] + LARGEST, evaluation.result + LARGEST] = True
    return table


def tradable(found: Sequence[Evaluation]) -> np.ndarray:
    """(i, j) -> whether i may take the result of j: it has the same sign and is wrong, but its numbers do not show that.

    With a unary function some other function must have that result at the argument; otherwise what has no function at all
    through it would be known to be wrong. With an operator each operand could be replaced by one that makes it right.
    """
    if not found:
        return np.zeros((0, 0), bool)
    values = np.array([float(100 * evaluation.value) for evaluation in found])
    results = np.array([evaluation.result for evaluation in found])
    alike = (results[:, None] < 0) == (results < 0)
    wrong = np.abs(values[:, None] - results) >= NEAREST
    arguments = np.array([evaluation.arguments for evaluation in found])
    plausible = _plausible(found[0].name, arguments, results) if found[0].name in BINARY else _on_a_curve(arguments, results)
    return alike & wrong & plausible


def near(found: Sequence[Evaluation]) -> np.ndarray:
    """(i, j) -> whether the results are close to one another."""
    results = np.array([evaluation.result for evaluation in found], int)
    return np.abs(results[:, None] - results) <= NEAR


def _on_a_curve(arguments: np.ndarray, results: np.ndarray) -> np.ndarray:
    return curves()[arguments + LARGEST, results + LARGEST]  # arguments are (n, 1), results (n,)


def _plausible(name: str, arguments: np.ndarray, results: np.ndarray) -> np.ndarray:
    operands, result = arguments.T[:, :, None] / 100, results / 100
    fits = [_replaceable(name, operands, slot, result) for slot in (0, 1)]
    return fits[0] & fits[1]


def _replaceable(name: str, operands: np.ndarray, slot: int, result: np.ndarray) -> np.ndarray:
    """(i, j) -> whether another number of the same sign, in place of one operand of i, gives the result of j."""
    other = operands[1 - slot]
    with np.errstate(all="ignore"):
        wanted = np.round(_INVERSES[name][slot](result, other), 2)
        pair = (wanted, other) if slot == 0 else (other, wanted)
        close = np.abs(_OPERATORS[name](*pair) - result) <= 0.005
    return close & (wanted != 0) & (np.abs(wanted) <= LARGEST / 100) & ((wanted < 0) == (operands[slot] < 0))
