"""Plain data that people hand in, as TOML and JSON: every key and type is checked, and so are settings of cells and tasks.

And, the other way, rows of cells as text that people read.
"""

import codecs
import inspect
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from dgl_treestack.errors import ConfigurationError, DataError, unknown

Built = TypeVar("Built")
_UTF16 = {0: "UTF-16BE", 1: "UTF-16LE"}  # by the place of a zero byte, without a byte order mark


def text_of(content: bytes | bytearray, path: object = None, line: int = 1) -> str:
    """Return the text of bytes in UTF-8, without a byte order mark. path, line: where they begin.

    Raises DataError that says how to convert other bytes.
    """
    first = bytes(content[:2]) if line == 1 else b""
    encoding = "UTF-16" if first in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else _UTF16.get(first.find(0), "")
    try:
        if not encoding:
            return content.decode("utf-8-sig")
        message = f"The text is {encoding}, not UTF-8. Convert it"
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
        where = f"byte {error.object[error.start]:#04x} at position {error.start}"
        message = f"The text is not UTF-8 ({where}): damaged, or perhaps Latin-1. Copy it again, or convert it"
    raise DataError(f"{message}: iconv -f {encoding or 'LATIN1'} -t UTF-8.", path, line)


def tables_of(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:  # tomllib reads brackets by recursion
        raise ValueError("brackets are nested too deeply") from None


def read_toml(path: Path, build: Callable[[dict[str, Any]], Built]) -> Built:
    """Read a TOML file and return what `build` returns for its content. Raises ConfigurationError that names the file."""
    try:
        return build(tables_of(text_of(path.read_bytes())))
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {error.strerror}." if isinstance(error, OSError) else error
        raise ConfigurationError(f"{path}: {reason}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"The key {key!a} is twice in one object. Take one of them out.")
    return data


# The constants of Python's JSON, such as NaN, are looked up in an empty table, so that they are a KeyError.
_CONSTANTS: dict[str, float] = {}
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_CONSTANTS.__getitem__)
# Perhaps half of a character: two halves are one. An id that was one half ended the packing of records in a traceback.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str, remedy: str = "", start: int | None = None) -> tuple[Any, int]:
    """Return the value of a JSON text, or the one that begins at `start`, and the index of its end.

    remedy: ends the message about a text that is not JSON. Raises DataError, without file and line, also for what Python
    accepts: a key that is there twice, half of a character, and numbers that are not finite.
    """
    try:
        value, end = (_DECODER.decode(text), len(text)) if start is None else _DECODER.raw_decode(text, start)
        if _HALF.search(text, start or 0, end):
            json.dumps(value, ensure_ascii=False).encode()
        return value, end
    except DataError as error:
        fault = str(error)
    except KeyError as error:
        fault = f"{error.args[0]} is not allowed in JSON. Write a finite number."
    except UnicodeEncodeError as error:
        fault = f"{error.object[error.start]!a} is half of a character. Write the whole one."
    except (ValueError, RecursionError) as error:  # ValueError also from int(), beyond sys.get_int_max_str_digits()
        reason = "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        fault = f"Not a complete JSON object ({getattr(error, 'msg', reason)}). {remedy}"
    raise DataError(fault)


def read_object(text: str, remedy: str = "") -> dict[str, Any]:
    """Return the JSON object of a text. Raises DataError for anything else, as `read_json`."""
    value, _ = read_json(text, remedy)
    if not isinstance(value, dict):
        raise DataError(f"Expected a JSON object, found {type(value).__name__}. {remedy}")
    return value


def one_of(options: Iterable[str], value: object, setting: str) -> str:
    """Return the value of a setting that must be one of some names."""
    names = tuple(options)
    if not isinstance(value, str) or value not in names:
        raise ConfigurationError(unknown(f"value for {setting!r}:", str(value), names))
    return value


def whole(value: Any, setting: str, low: int, high: int = 10_000) -> int:
    """Return the value of a setting that must be a whole number from `low` to `high`."""
    # not isinstance: True is an int, too
    return _checked(type(value) is int and low <= value <= high, value, setting, f"a whole number from {low} to {high}")


def number(value: Any, setting: str, low: float = -1e6, high: float = 1e6) -> float:
    """Return the value of a setting that must be a number in [low, high)."""
    is_allowed = type(value) in (int, float) and low <= value < high
    return float(_checked(is_allowed, value, setting, f"a number from {low:g} on, below {high:g}"))


def switch(value: Any, setting: str) -> bool:
    """Return the value of a setting that must be true or false."""
    return _checked(type(value) is bool, value, setting, "true or false")


def _checked(is_allowed: bool, value: Any, setting: str, rule: str) -> Any:
    if not is_allowed:
        raise ConfigurationError(f"{setting!r} is {value!r}; it must be {rule}.")
    return value


def settings_of(cls: type) -> dict[str, Any]:
    """Return the settings of a class: the keyword-only arguments of it and its bases, with their defaults."""
    signatures = [inspect.signature(base.__init__) for base in reversed(cls.__mro__)]  # type: ignore[misc]
    keywords = [p for signature in signatures for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {parameter.name: parameter.default for parameter in keywords}


def build(cls: type[Built], data: dict[str, Any], prefix: str = "") -> Built:
    """Build a dataclass, with nested ones, from plain data; every key and type is checked. Raises ConfigurationError.

    prefix: prepended to the keys in errors.
    """
    fields_by_name = {entry.name: entry for entry in fields(cast(Any, cls))}
    names = [prefix + name for name in fields_by_name]
    faults = [unknown("key", prefix + key, names) for key in data if key not in fields_by_name]
    for name, entry in fields_by_name.items():
        if name not in data and entry.default is MISSING and entry.default_factory is MISSING:
            faults.append(f"The key {prefix + name!r} is missing.")
    if faults:
        raise ConfigurationError(faults[0])
    kinds = get_type_hints(cls)
    return cls(**{key: convert(kinds[key], value, prefix + key) for key, value in data.items()})


def convert(kind: Any, value: Any, key: str) -> Any:
    """Convert a value of plain data to the type of its field. Raises ConfigurationError that names the key."""
    if is_dataclass(kind) and isinstance(value, dict):
        return build(cast(type, kind), value, key + ".")
    if get_origin(kind) is Literal:
        return one_of(get_args(kind), value, key)
    if get_origin(kind) is tuple:  # a single text stands for a tuple of one, as in --set data.train=FILE
        entries, kind_of_entries = [value] if isinstance(value, str) else value, get_args(kind)[0]
        if isinstance(entries, list | tuple) and all(type(entry) is kind_of_entries for entry in entries):
            return tuple(entries)
    elif get_origin(kind) is dict:
        if isinstance(value, dict):
            _, kind_of_values = get_args(kind)
            return {name: convert(kind_of_values, entry, f"{key}.{name}") for name, entry in value.items()}
    elif get_origin(kind) is list and isinstance(value, list):
        return [convert(get_args(kind)[0], entry, f"{key}[{i}]") for i, entry in enumerate(value)]
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
            values.append((key, tables_of(f"value = {text}")["value"]))
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


def align(rows: Iterable[Sequence[object]], sides: str = "<>") -> str:
    """Return rows of cells as lines of text, in columns with two blanks between them.

    sides: < for a column aligned to the left, > to the right; the last one is also for all columns after it.
    """
    texts = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    side_of = sides.ljust(len(widths), sides[-1])
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, side_of, widths, strict=False)) for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)
