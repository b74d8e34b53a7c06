"""Frozen dataclasses from plain data, as TOML files have it: every key and every type is checked."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from dgl_treestack import markup
from dgl_treestack.errors import ConfigurationError, unknown

Built = TypeVar("Built")


def read_toml(path: Path, build: Callable[[dict[str, Any]], Built]) -> Built:
    """Read a TOML file and return what `build` returns for its content. Raises ConfigurationError that names the file."""
    try:
        return build(markup.read_toml(path.read_text()))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def build(cls: type[Built], data: dict[str, Any], prefix: str = "") -> Built:
    """Build a dataclass, with nested ones, from plain data; every key and type is checked. Raises ConfigurationError.

    prefix: prepended to the keys in errors.
    """
    fields_by_name = {entry.name: entry for entry in fields(cast(Any, cls))}
    for key in data:
        if key not in fields_by_name:
            raise ConfigurationError(unknown("key", prefix + key, [prefix + name for name in fields_by_name]))
    for name, entry in fields_by_name.items():
        if name not in data and entry.default is MISSING and entry.default_factory is MISSING:
            raise ConfigurationError(f"The key {prefix + name!r} is missing.")
    kinds = get_type_hints(cls)
    return cls(**{key: _convert(kinds[key], value, prefix + key) for key, value in data.items()})


def _convert(kind: Any, value: Any, key: str) -> Any:
    """Convert a value of plain data to the type of its field. Raises ConfigurationError that names the key."""
    if is_dataclass(kind) and isinstance(value, dict):
        return build(cast(type, kind), value, key + ".")
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigurationError(unknown(f"value for {key!r}:", str(value), get_args(kind)))
        return value
    if kind == tuple[str, ...]:
        entries = [value] if isinstance(value, str) else value
        if isinstance(entries, list | tuple) and all(isinstance(entry, str) for entry in entries):
            return tuple(entries)
    elif get_origin(kind) is dict:
        if isinstance(value, dict):
            _, kind_of_values = get_args(kind)
            return {name: _convert(kind_of_values, entry, f"{key}.{name}") for name, entry in value.items()}
    elif kind is Any:
        return value
    elif kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    elif type(value) is kind:
        return value
    raise ConfigurationError(f"{key!r} is {value!r}; expected {getattr(kind, '__name__', kind)}.")


def flat(config: Any) -> dict[str, Any]:
    """Return the values of a dataclass, with nested ones, by their keys as `override` takes them, such as `schedule.epochs`."""
    values: dict[str, Any] = {}
    tables = [("", asdict(config))]
    for prefix, table in tables:
        for key, value in table.items():
            if isinstance(value, dict):
                tables.append((f"{prefix}{key}.", value))
            else:
                values[prefix + key] = value
    return values


def override(config: Built, assignments: Iterable[str]) -> Built:
    """Return a configuration with values replaced by KEY=VALUE, such as `schedule.epochs=3`; a dot in a key separates tables.

    VALUE is TOML; anything else is text. Raises ConfigurationError for an assignment without `=`, and those of `replaced`.
    """
    values: list[tuple[str, Any]] = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigurationError(f"{assignment!r} is not KEY=VALUE, such as schedule.epochs=3.")
        try:
            values.append((key, markup.read_toml(f"value = {text}")["value"]))
        except (ValueError, KeyError):
            values.append((key, text))
    return replaced(config, values)


def replaced(config: Built, values: Iterable[tuple[str, Any]]) -> Built:
    """Return a configuration with values replaced, one after the other; a dot in a key separates tables.

    values: key, such as `schedule.epochs`, and value as plain data. Raises ConfigurationError for an unknown key or a wrong
    value.
    """
    data = asdict(cast(Any, config))
    for key, value in values:
        *tables, last = key.split(".")
        table = data
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigurationError(f"{key!r}: {name!r} is no table.")
        table[last] = value
    return build(type(config), data)
