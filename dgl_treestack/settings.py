"""Checks of settings of cells, encoders and tasks, with errors that name the allowed values: all raise ConfigurationError."""

from collections.abc import Iterable

from dgl_treestack.errors import ConfigurationError, unknown


def one_of(options: Iterable[str], value: object, setting: str) -> str:
    """Return the value of a setting that must be one of some names."""
    names = tuple(options)
    if not isinstance(value, str) or value not in names:
        raise ConfigurationError(unknown(f"value for {setting!r}:", str(value), names))
    return value


def whole(value: object, setting: str, low: int, high: int = 10_000) -> int:
    """Return the value of a setting that must be a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be a whole number from {low} to {high}.")
    return value


def number(value: object, setting: str, low: float = -1e6, high: float = 1e6) -> float:
    """Return the value of a setting that must be a number in [low, high)."""
    if type(value) not in (int, float) or not low <= value < high:  # type: ignore[operator]
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be a number from {low:g} on, below {high:g}.")
    return float(value)  # type: ignore[arg-type]


def switch(value: object, setting: str) -> bool:
    """Return the value of a setting that must be true or false."""
    if type(value) is not bool:
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be true or false.")
    return value
