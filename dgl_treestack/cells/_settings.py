"""Settings of cells: activations by name, and checks with errors that say what is allowed."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from dgl_treestack.errors import ConfigurationError, unknown

Choice = TypeVar("Choice")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh}


def choose(table: Mapping[str, Choice], name: object, setting: str) -> Choice:
    """The entry of a table that a setting names."""
    if not isinstance(name, str) or name not in table:
        raise ConfigurationError(unknown(f"value for {setting!r}:", str(name), table))
    return table[name]


def one_of(names: Iterable[str], name: object, setting: str) -> str:
    """A setting that is one of some names."""
    return choose({known: known for known in names}, name, setting)


def whole(value: object, setting: str, low: int, high: int = 10_000) -> int:
    """A whole number from low to high."""
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be a whole number from {low} to {high}.")
    return value


def number(value: object, setting: str, low: float = -1e6, high: float = 1e6) -> float:
    """A number from low on, below high."""
    if type(value) not in (int, float) or not low <= value < high:  # type: ignore[operator]
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be a number from {low:g} on, below {high:g}.")
    return float(value)  # type: ignore[arg-type]


def switch(value: object, setting: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be true or false.")
    return value
