"""Bytes of a file of equations, plain or gzip, with errors that name the file."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from dgl_treestack.errors import DataError

MAX_LINE = 20_000_000  # bytes; a line beyond it is not a line of equations
MAX_TEXT = 500_000_000  # bytes after decompression, of a file that is read as a whole
_BLOCK = 1 << 16
_DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time, decompressed by suffix; a byte order mark is dropped. Raises DataError."""
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    raise DataError(f"The line is longer than {MAX_LINE} bytes. One line holds one equation.", path, number)
                yield (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
    except _DAMAGE as error:
        raise DataError(f"Damaged or cut short ({error}). Copy or generate the file again.", path, number + 1) from None
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None


def read_text(path: Path) -> str:
    """The whole text of a file, decompressed by suffix; a byte order mark is dropped. Raises DataError."""
    content = bytearray()
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            while block := file.read(_BLOCK):
                content += block
                if len(content) > MAX_TEXT:
                    raise DataError(f"The file has more than {MAX_TEXT} bytes, decompressed. Split it, or use .jsonl.", path)
        return content.decode("utf-8-sig")
    except _DAMAGE as error:
        raise DataError(f"Damaged or cut short ({error}). Copy or generate the file again.", path) from None
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None


def fault(error: Exception) -> str:
    """The error of the JSON decoder in a few words."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return getattr(error, "msg", "a number has too many digits")
