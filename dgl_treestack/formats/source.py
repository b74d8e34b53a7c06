"""Bytes of a file of equations, plain or gzip, with errors that name the file."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgl_treestack.errors import DataError

MAX_LINE = 20_000_000  # bytes; a line beyond it is not a line of equations


def read_lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with _open(path) as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    raise DataError(f"The line is longer than {MAX_LINE} bytes.", path, number)
                yield line.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _unreadable(path, error, number + 1) from None


def read_text(path: Path) -> str:
    """The whole text of a file, decompressed by suffix. Raises DataError."""
    try:
        with _open(path) as file:
            return file.read().decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise _unreadable(path, error, None) from None


def _open(path: Path) -> Any:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else open(path, "rb")


def _unreadable(path: Path, error: Exception, line: int | None) -> DataError:
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(f"Cannot be read: {error.strerror}.", path)
    return DataError(f"Damaged or cut short ({error}). Copy or generate the file again.", path, line)
