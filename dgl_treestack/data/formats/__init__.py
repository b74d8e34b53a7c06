"""Files of examples: our JSON Lines (suffix `.jsonl`), the authors' JSON (`.json`), label and trees separated by tabs (`.tsv`),
and trees alone, such as those of a treebank (`.txt`), each also with `.gz`. And files of vectors of words.

All are read as a stream of `Example`; every error names the file and the line. Our format has one equation per line;
`data/README.md` has its schema.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgl_treestack import atomic
from dgl_treestack.data.formats import authors, tabular
from dgl_treestack.data.formats.example import Example, from_dict, from_line, to_dict
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import text_of
from dgl_treestack.resources import find_data

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Example", "from_dict", "read", "read_examples", "read_lines", "read_vectors", "stream_examples", "to_dict", "write"]
SUFFIXES = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".jsonl", ".json", ".tsv", ".txt"))
MAX_LINE = 20_000_000  # bytes
MAX_TEXT = 500_000_000  # bytes of a file that is read as a whole, decompressed
# A fixed bound, with a remedy in the message, in place of an option --max-bytes.
MAX_EXPANSION, HARMLESS = 200, 10_000_000  # largest ratio of bytes decompressed to compressed, after so many bytes
LARGEST = (2 - 2**-23) * 2.0**127  # of float32


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
        fault = ""
        try:
            example = example_of(content, identity, f"{path}:{number}")
            if example.id in line_of_id:
                fault = f"The id {example.id!r} is already in line {line_of_id[example.id]}; ids are unique."
        except (DataError, ExpressionError) as error:
            fault = str(error)
        if fault:
            raise DataError(fault, path, number)
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
    size, number = 0, 1  # bytes of the lines so far, number of the line that is read
    longest, fault = (MAX_TEXT + 1 if whole else MAX_LINE), ""
    try:
        packed = path.suffix == ".gz"
        with _InPieces(path) if packed else open(path, "rb") as stored, gzip.open(stored) if packed else stored as file:
            while not fault and (line := file.readline(longest)):
                size += len(line)
                if whole and size > MAX_TEXT:
                    fault = f"The file has more than {MAX_TEXT} bytes, decompressed. Split it, or use .jsonl."
                elif size > HARMLESS and size > MAX_EXPANSION * stored.tell():
                    fault = f"It expands to more than {MAX_EXPANSION} times its size, as no trees do. "
                    fault += "If you trust it, decompress it, and give the file without .gz."
                elif len(line) == longest:
                    fault = f"The line is longer than {longest} bytes. One line holds one tree, or one word."
                else:
                    yield text_of(line, path, number)
                    number += 1
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        fault = f"Damaged or cut short ({error}). Copy or generate the file again."
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    if fault:
        raise DataError(fault, path, number)


def read_vectors(path: Path, words: Set[str], size: int) -> "dict[str, np.ndarray]":
    """The vectors (size,), float32, of those words that a file as of GloVe has; of several lines of a word the first counts.

        the 0.418 0.24968 -0.41242            a word, then numbers, separated by one space, one word per line
        . . 0.1 -0.2 0.3

    Published files have words with spaces, such as `. .`, so the last fields are the numbers, as many as the caller asks for. A
    first line of two whole numbers, how many words and how many numbers per word, is skipped: word2vec and fastText write it.
    The file is read once, line by line, and vectors of other words are not kept. Raises DataError with file and line: for a
    line with fewer numbers, and for a line of one of the words with more or with one that is not finite; without a line: for a
    file that is empty or has none of the words.
    """
    import numpy as np  # here, since nobody who reads trees should wait for it

    vectors: dict[str, np.ndarray] = {}
    number = 0
    for number, text in enumerate(read_lines(path), 1):
        line, fault = text.rstrip(), ""
        count, is_header = line.count(" "), False
        if number == 1 and count == 1 and line.replace(" ", "").isdecimal():  # how many words, how many numbers per word
            header = int(line.split(" ")[1])
            if header == size:
                continue
            # with one number per word, the line may be a word and its number
            count, is_header = (header, True) if size > 1 else (count, False)
        word, *fields = line.rsplit(" ", size)
        first, *others = word.split(" ")
        has_more = bool(others) and word not in words and first in words and all(map(_is_number, others))
        if (line and count < size) or is_header or has_more:
            fault = f"The word has {count} numbers after it, separated by one space, but the table of the model takes {size}. "
            fault += "Set 'model.vector_size' to the size of the file, or copy the file again."
        elif word in words and word not in vectors:
            wrong = [field for field in fields if not _is_number(field)]
            if wrong:
                fault = f"{wrong[0]!r} is no finite number. Correct the line, or take it out."
            else:
                vectors[word] = np.array([float(field) for field in fields], dtype=np.float32)
        if fault:
            raise DataError(fault, path, number)
    if vectors:
        return vectors
    empty = "The file is empty. A line is a word and its numbers, separated by one space."
    none = f"None of the {len(words)} words of the data is in the file. Words match letter by letter."
    raise DataError(none if number else empty, path)


def _is_number(text: str) -> bool:
    """Whether a text is a number that a float32 can hold."""
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False
