"""Evaluations of functions at numbers with two decimals, and which two of them may exchange their results.

All numbers are integers, in hundredths. A result is rounded half to even; a value within 1e-9 of a tie is omitted.
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
# Operator -> the first operand as a function of the result and the second one, the second of the result and the first.
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
        """Return the distance of a printed result from the value."""
        return abs(self.value - _EXACT.mpf(result) / 100)


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


@lru_cache(maxsize=1)
def curves() -> np.ndarray:
    """Return a table of (argument + LARGEST, result + LARGEST): whether any unary function has this result there."""
    table = np.zeros((2 * LARGEST + 1,) * 2, bool)
    for name in UNARY:
        for evaluation in evaluations(name):
            table[evaluation.arguments[0] + LARGEST, evaluation.result + LARGEST] = True
    return table


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
        return allowed & curves()[arguments + LARGEST, results + LARGEST]
    operands = arguments.T[:, :, None] / 100
    for slot in (0, 1):
        fixed = operands[1 - slot]
        with np.errstate(all="ignore"):
            substitute = np.round(_INVERSES[name][slot](results / 100, fixed), 2)
            pair = (substitute, fixed) if slot == 0 else (fixed, substitute)
            allowed &= np.abs(_OPERATORS[name](*pair) - results / 100) <= 0.005
        allowed &= (substitute != 0) & (np.abs(substitute) <= LARGEST / 100) & ((substitute < 0) == (operands[slot] < 0))
    return allowed
