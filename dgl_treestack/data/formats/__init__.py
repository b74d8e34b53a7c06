"""Files of examples: our JSON Lines (suffix `.jsonl`), the authors' JSON (`.json`), label and trees separated by tabs (`.tsv`),
and trees alone, such as those of a treebank (`.txt`), each also with `.gz`.

All are read as a stream of `Example`; every error names the file and the line. Our format has one equation per line;
`data/README.md` has its schema.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.data.formats import authors, tabular
from dgl_treestack.data.formats.example import Example, from_dict, from_line, to_dict
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import text_of
from dgl_treestack.resources import find_data

__all__ = ["Example", "from_dict", "read", "read_examples", "read_lines", "stream_examples", "to_dict", "write"]
SUFFIXES = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".jsonl", ".json", ".tsv", ".txt"))
MAX_LINE = 20_000_000  # bytes
MAX_TEXT = 500_000_000  # bytes of a file that is read as a whole, decompressed
# A fixed bound, with a remedy in the message, in place of an option --max-bytes.
MAX_EXPANSION, HARMLESS = 200, 10_000_000  # largest ratio of bytes decompressed to compressed, after so many bytes


def read(path: Path | str, signature: Signature = MATH, *, unique_ids: bool = True) -> Iterator[Example]:
    """The examples of a file, one at a time, in file order. signature: of its operators; MATH for the authors' JSON.

    unique_ids: whether an id may not occur twice, for which all ids are kept in memory. Raises DataError with file and line.
    """
    path = Path(path)
    suffix = _suffix(path)
    entries: Iterator[tuple[int, str, Any]]  # line, id unless the entry has one, content
    example_of: Callable[[Any, str, str], Example]  # content, id, source
    if suffix == ".json":
        entries, example_of = authors.entries(path, "".join(read_lines(path, whole=True))), authors.from_dict
    else:
        entries = ((number, str(number), line) for number, line in enumerate(read_lines(path), 1) if line.strip())
        example_of = partial(tabular.from_line, language=signature, has_label=suffix == ".tsv")
    if suffix == ".jsonl":
        example_of = partial(from_line, signature=signature)
    line_of_id: dict[str, int] = {}
    for number, identity, content in entries:
        try:
            example = example_of(content, identity, f"{path}:{number}")
            if example.id in line_of_id:
                raise DataError(f"The id {example.id!r} is already in line {line_of_id[example.id]}; ids are unique.")
        except (DataError, ExpressionError) as error:
            raise DataError(str(error), path, number) from None
        if unique_ids and suffix == ".jsonl" and example.id:  # other formats have numbers for ids
            line_of_id[example.id] = number
        yield example


def read_examples(names: str | Sequence[str], *, percent: float = 100.0, signature: Signature = MATH) -> list[Example]:
    """The examples of a file, or of several, by path or bundled name, in file order. Other arguments: see `stream_examples`."""
    return list(stream_examples([names] if isinstance(names, str) else names, percent=percent, signature=signature))


def stream_examples(
    names: Sequence[str], *, percent: float = 100.0, signature: Signature = MATH, unique_ids: bool = True
) -> Iterator[Example]:
    """The examples of files, by path or bundled name, in file order, one at a time.

    signature: the language of the trees. percent: the approximate share to keep. A hash of the pair's name selects them, so
    that pairs stay together, every run keeps the same examples, and a larger share contains every smaller one. unique_ids: see
    `read`.
    """
    for name in names:
        for example in read(find_data(name), signature, unique_ids=unique_ids):
            if percent >= 100 or 100 * zlib.crc32((example.pair or example.id).encode()) / 2**32 < percent:
                yield example


def write(path: Path | str, examples: Iterable[Example]) -> int:
    """Write examples atomically and return their number; the same examples give the same bytes."""
    path, examples = Path(path), list(examples)
    suffix = _suffix(path)
    if suffix == ".jsonl":
        text = "".join(json.dumps(to_dict(example)) + "\n" for example in examples)
    elif suffix == ".json":
        text = authors.write(examples)
    else:
        text = tabular.write(examples, has_label=suffix == ".tsv")
    content = text.encode()
    atomic.write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return len(examples)


def _suffix(path: Path) -> str:
    """The suffix of a path without `.gz`. Raises DataError for a suffix of no format."""
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"A file of equations ends in one of {', '.join(SUFFIXES)}.", path)
    return Path(path.name.removesuffix(".gz")).suffix


class _InPieces(io.FileIO):
    """A file whose `tell` is near what has been used: read in pieces of 8 KiB, where gzip of Python 3.12 asks for 128."""

    # With 128 KiB, a file of compressed newlines was refused after 40 s in place of 2.

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, 8192) if size and size > 0 else 8192)


def read_lines(path: Path, *, whole: bool = False) -> Iterator[str]:
    """The lines of a file, one at a time, decompressed by suffix; a byte order mark is dropped. Raises DataError.

    whole: whether all of them are wanted at once; then they may have any length, but `MAX_TEXT` bytes in all.
    """
    number = size = 0  # of complete lines, and their bytes
    longest = MAX_TEXT + 1 if whole else MAX_LINE
    try:
        packed = path.suffix == ".gz"
        with _InPieces(path) if packed else open(path, "rb") as stored, gzip.open(stored) if packed else stored as file:
            while line := file.readline(longest):
                size += len(line)
                fault = ""
                if whole and size > MAX_TEXT:
                    fault = f"The file has more than {MAX_TEXT} bytes, decompressed. Split it, or use .jsonl."
                elif size > HARMLESS and size > MAX_EXPANSION * stored.tell():
                    fault = f"It expands to more than {MAX_EXPANSION} times its size, as no trees do. "
                    fault += "If you trust it, decompress it, and give the file without .gz."
                elif len(line) == longest:
                    fault = f"The line is longer than {longest} bytes. One line holds one tree, or one word."
                if fault:
                    raise DataError(fault, path, number + 1)
                yield text_of(line, path, number + 1)
                number += 1
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"Damaged or cut short ({error}). Copy or generate the file again.", path, number + 1) from None
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
