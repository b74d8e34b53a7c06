"""Operators: what may stand at an inner node of an expression.

A `Signature` is a table of operators by name. Weights, files and checkpoints refer to an operator by its name, never by
its position. `MATH` is the signature of the papers: 25 unary functions, `Add`, `Mul`, `Pow`, `log` (argument, base) and
the root `Equality`. Another domain brings its own signature.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from dgl_treestack.errors import ExpressionError, unknown


@dataclass(frozen=True)
class Operator:
    """One operator.

    name: how weights, files and checkpoints call it.
    arity: number of children, or None for any number from one on.
    symbol: the infix sign between two children (`+`), or nothing where it is printed as a function call.
    value: complex NumPy arrays of the children's values -> array of the operator's value (principal branch), or None.
    """

    name: str
    arity: int | None
    symbol: str = ""
    value: Callable[..., np.ndarray] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Signature:
    """The operators of a domain, by name. `root` names the operator that relates two sides, if there is one."""

    name: str
    operators: tuple[Operator, ...]
    root: str | None = None

    @cached_property
    def by_name(self) -> dict[str, Operator]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """By number."""
        return tuple(operator.name for operator in self.operators)

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator name -> number used inside a batch. Never written to a file."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def inner(self) -> tuple[Operator, ...]:
        """The operators that a cell has parameters for: all but the root."""
        return tuple(operator for operator in self.operators if operator.name != self.root)

    def __getitem__(self, name: str) -> Operator:
        try:
            return self.by_name[name]
        except KeyError:
            raise ExpressionError(unknown("operator", name, self.by_name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def check_arity(self, name: str, count: int) -> None:
        """Raise ExpressionError unless operator `name` takes `count` children."""
        arity = self[name].arity
        if count < 1 or (arity is not None and count != arity):
            wanted = "at least one" if arity is None else str(arity)
            raise ExpressionError(
                f"{name!r} takes {wanted} operand{'' if arity == 1 else 's'}, found {count}. "
                f"Nest longer sums and products: Add(Add(x, 1), y)."
            )


# Functions that can be pickled, so that processes can hand each other what has a signature.


def _reciprocal(function: Callable, x: np.ndarray) -> np.ndarray:
    return 1 / function(x)


def _reciprocal_of(function: Callable) -> Callable:
    return partial(_reciprocal, function)


def _of_reciprocal(function: Callable, x: np.ndarray) -> np.ndarray:
    return function(1 / x)


def _at_reciprocal(function: Callable) -> Callable:
    return partial(_of_reciprocal, function)


def _log(x: np.ndarray, base: np.ndarray) -> np.ndarray:
    return np.log(x) / np.log(base)


_CIRCULAR_AND_HYPERBOLIC: dict[str, Callable] = {
    "sin": np.sin,
    "cos": np.cos,
    "csc": _reciprocal_of(np.sin),
    "sec": _reciprocal_of(np.cos),
    "tan": np.tan,
    "cot": _reciprocal_of(np.tan),
    "asin": np.arcsin,
    "acos": np.arccos,
    "acsc": _at_reciprocal(np.arcsin),
    "asec": _at_reciprocal(np.arccos),
    "atan": np.arctan,
    "acot": _at_reciprocal(np.arctan),
    "sinh": np.sinh,
    "cosh": np.cosh,
    "csch": _reciprocal_of(np.sinh),
    "sech": _reciprocal_of(np.cosh),
    "tanh": np.tanh,
    "coth": _reciprocal_of(np.tanh),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "acsch": _at_reciprocal(np.arcsinh),
    "asech": _at_reciprocal(np.arccosh),
    "atanh": np.arctanh,
    "acoth": _at_reciprocal(np.arctanh),
    "exp": np.exp,
}

MATH = Signature(
    name="math",
    operators=(
        *(Operator(name, 1, value=value) for name, value in _CIRCULAR_AND_HYPERBOLIC.items()),
        Operator("Add", 2, "+", np.add),
        Operator("Mul", 2, "*", np.multiply),
        Operator("Pow", 2, "**", np.power),
        Operator("log", 2, value=_log),
        Operator("Equality", 2, "="),
    ),
    root="Equality",
)
