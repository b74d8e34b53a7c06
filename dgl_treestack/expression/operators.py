"""Operators: the names that inner nodes of an expression may have.

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

    name: its name in weights, files and checkpoints.
    arity: number of children, or None for any number from one on.
    symbol: the infix sign between two children (`+`), or empty for an operator that is printed as a function call.
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
    def names(self) -> tuple[str, ...]:
        """Names of the operators, in order."""
        return tuple(operator.name for operator in self.operators)

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator name -> index in `operators`, which batches use. Never written to a file."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def inner(self) -> tuple[Operator, ...]:
        """The operators that a cell has parameters for: all but the root."""
        return tuple(operator for operator in self.operators if operator.name != self.root)

    def __getitem__(self, name: str) -> Operator:
        try:
            return self.operators[self.index[name]]
        except KeyError:
            raise ExpressionError(unknown("operator", name, self.index)) from None

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def check_arity(self, name: str, count: int) -> None:
        """Raise ExpressionError unless operator `name` takes `count` children."""
        arity = self[name].arity
        if count < 1 or (arity is not None and count != arity):
            expected = "at least one" if arity is None else str(arity)
            raise ExpressionError(
                f"{name!r} takes {expected} operand{'' if arity == 1 else 's'}, found {count}. "
                f"Nest longer sums and products: Add(Add(x, 1), y)."
            )


# Module-level functions, unlike lambdas, can be pickled, so that processes can send each other objects with a signature.


def _reciprocal(function: Callable, x: np.ndarray) -> np.ndarray:
    return 1 / function(x)


def _of_reciprocal(function: Callable, x: np.ndarray) -> np.ndarray:
    return function(1 / x)


def _log(x: np.ndarray, base: np.ndarray) -> np.ndarray:
    return np.log(x) / np.log(base)


_CIRCULAR_AND_HYPERBOLIC: dict[str, Callable] = {
    "sin": np.sin,
    "cos": np.cos,
    "csc": partial(_reciprocal, np.sin),
    "sec": partial(_reciprocal, np.cos),
    "tan": np.tan,
    "cot": partial(_reciprocal, np.tan),
    "asin": np.arcsin,
    "acos": np.arccos,
    "acsc": partial(_of_reciprocal, np.arcsin),
    "asec": partial(_of_reciprocal, np.arccos),
    "atan": np.arctan,
    "acot": partial(_of_reciprocal, np.arctan),
    "sinh": np.sinh,
    "cosh": np.cosh,
    "csch": partial(_reciprocal, np.sinh),
    "sech": partial(_reciprocal, np.cosh),
    "tanh": np.tanh,
    "coth": partial(_reciprocal, np.tanh),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "acsch": partial(_of_reciprocal, np.arcsinh),
    "asech": partial(_of_reciprocal, np.arccosh),
    "atanh": np.arctanh,
    "acoth": partial(_of_reciprocal, np.arctanh),
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
