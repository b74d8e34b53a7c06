"""Files of examples: our JSON Lines (suffix `.jsonl`), the authors' JSON (`.json`), label and trees separated by tabs (`.tsv`),
and trees alone, such as those of a treebank (`.txt`), each also with `.gz`.

All are read as a stream of `Example`; every error names the file and the line. Our format has one equation per line;
`data/README.md` has its schema.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.data.formats import authors, tabular
from dgl_treestack.data.formats.tabular import Example as Example
from dgl_treestack.errors import DataError, ExpressionError, unknown
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, WITHOUT_OPERATORS, Label, Signature
from dgl_treestack.plain_data import read_json, text_of
from dgl_treestack.resources import find_data

SUFFIXES = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (".jsonl", ".json", ".tsv", ".txt"))
MAX_LINE = 20_000_000  # bytes
MAX_EXPANSION, HARMLESS = 200, 10_000_000  # largest ratio of bytes decompressed to compressed, after so many bytes
MAX_INFIX_DEPTH = 60  # deeper trees are written in prefix form

_VERDICT_OF_LABEL = {1: "holds", 0: "refuted"}
_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "label": (int, float, str, type(None)),
    "labels": (list,),
    "depth": (int,),
    "text": (str,),
    "prefix": (str,),
    "signature": (str,),
    "fold": (str,),
    "pair": (str,),
    "family": (str,),
    "class": (str,),
    "blank": (int,),
    "certificate": (dict,),
}


def read(path: Path | str, signature: Signature = MATH, *, unique_ids: bool = True) -> Iterator[Example]:
    """The examples of a file, one at a time, in file order. signature: of its operators; MATH for the authors' JSON.

    unique_ids: whether an id may not occur twice, for which all ids are kept in memory. Raises DataError with file and line.
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix == ".json":
        return authors.read(path)
    if suffix in (".tsv", ".txt"):
        return tabular.read(path, read_lines(path), signature, has_label=suffix == ".tsv")
    return _read_json_lines(path, signature, unique_ids=unique_ids)


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


def _read_json_lines(path: Path, signature: Signature, *, unique_ids: bool) -> Iterator[Example]:
    """The examples of a file of JSON Lines, one at a time. Raises DataError with file and line."""
    line_of_id: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            example = from_dict(_decode(line), f"{path}:{number}", signature)
            if example.id in line_of_id:
                raise DataError(f"The id {example.id!r} is already in line {line_of_id[example.id]}; ids are unique.")
        except (DataError, ExpressionError) as error:
            raise DataError(str(error), path, number) from None
        if example.id and unique_ids:
            line_of_id[example.id] = number
        yield example


class _InPieces(io.FileIO):
    """A file whose `tell` is near what has been used: read in pieces of 8 KiB, where gzip of Python 3.12 asks for 128."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size, 8192) if size and size > 0 else 8192)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, one at a time, decompressed by suffix; a byte order mark is dropped. Raises DataError."""
    number = size = 0  # of complete lines, and their bytes
    try:
        packed = path.suffix == ".gz"
        with _InPieces(path) if packed else open(path, "rb") as stored, gzip.open(stored) if packed else stored as file:
            while line := file.readline(MAX_LINE):
                size += len(line)
                if size > HARMLESS and size > MAX_EXPANSION * stored.tell():
                    message = f"It expands to more than {MAX_EXPANSION} times its size, as no trees do. "
                    remedy = "If you trust it, decompress it, and give the file without .gz."
                    raise DataError(message + remedy, path, number + 1)
                if len(line) == MAX_LINE:
                    message = f"The line is longer than {MAX_LINE} bytes. One line holds one tree, or one word."
                    raise DataError(message, path, number + 1)
                yield text_of(line, path, number + 1)
                number += 1
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"Damaged or cut short ({error}). Copy or generate the file again.", path, number + 1) from None
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None


def _decode(line: str) -> dict[str, Any]:
    """The JSON object of a line, with checked keys and types. Raises DataError."""
    data, _ = read_json(line, "One line holds one equation.")
    if not isinstance(data, dict):
        raise DataError(f"Expected a JSON object, found {type(data).__name__}. One line holds one equation.")
    for key, value in data.items():
        if key not in _TYPES:
            raise DataError(unknown("key", key, _TYPES))
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in _TYPES[key])
            raise DataError(f"{key!r} must be {expected}, found {value!r}.")
    return data


def from_dict(data: dict[str, Any], source: str = "", signature: Signature = MATH) -> Example:
    """The example of one line, from values of the right types. Raises DataError or ExpressionError, without file and line."""
    if ("text" in data) == ("prefix" in data):
        raise DataError("Exactly one of the keys 'text' and 'prefix' gives the equation.")
    language_of_line = data.get("signature", signature.name if signature.words else MATH.name)
    if language_of_line != signature.name:
        only = ", the language of audit, verify and complete" if signature.name == MATH.name else ""
        raise DataError(
            f"Its operators are those of {language_of_line!r}, not of {signature.name!r}{only}. "
            "Give the run the language of the file, [data] language, or read it in Python: formats.read(path, signature)."
        )
    if "text" in data and signature.notation == "prefix":
        raise DataError(f"{signature.name!r} has no notation for the key 'text'. Write its trees as 'prefix'.")
    labels: tuple[Label, ...] = ()
    if "prefix" in data:
        tree = Expression.from_prefix(data["prefix"], signature)
    else:
        tree, labels = tabular.read_tree(data["text"], signature)
    tree = tree.recognised()
    if "labels" in data:
        if any(labels):
            raise DataError("The labels are in 'text' and in 'labels'. Take one of them out.")
        labels = tuple(None if label is None else signature.label(label) for label in data["labels"])
        if len(labels) != tree.size:
            raise DataError(f"'labels' has {len(labels)} entries for {tree.size} nodes. Write one for each, null if unknown.")
    if data.get("depth", tree.depth) != tree.depth:
        raise DataError(f"'depth' says {data['depth']}, the tree has {tree.depth} (a leaf is 0, '=' counts). Correct it.")
    if not 0 <= data.get("blank", 0) < tree.size:
        raise DataError(f"'blank' is node {data['blank']} of a tree with {tree.size} nodes.")
    certificate = data.get("certificate")
    label = data.get("label")
    if isinstance(label, str) and not signature.classes:
        raise DataError(f"'label' must be {'a number' if signature.numeric else 'int'} or null, found {label!r}.")
    label = None if label is None else signature.label(label)
    label = tabular.root_label(label, labels) if labels else label
    verdict = _VERDICT_OF_LABEL[label] if isinstance(label, int) else None
    if verdict and certificate and certificate.get("verdict", verdict) != verdict:
        raise DataError(f"'label' is {label} but the certificate says {certificate['verdict']!r}. One of them is wrong.")
    texts = {key: data.get(key, "") for key in ("id", "fold", "pair", "family")}
    more = {"certificate": certificate, "blank": data.get("blank"), "value_class": data.get("class", "")}
    return Example(tree, label, labels=labels, source=source, **texts, **more)


def to_dict(example: Example) -> dict[str, Any]:
    """One line of our format as plain data; empty fields are left out."""
    tree = example.equation
    notation = tree.signature.notation
    is_pair_without_name = notation in WITHOUT_OPERATORS and tree.names[0] == tree.signature.root
    is_too_deep = notation == "infix" and tree.depth > MAX_INFIX_DEPTH
    has_text = notation != "prefix" and not (is_pair_without_name or is_too_deep)
    text = {"text": str(tree)} if has_text else {"prefix": tree.prefix()}
    line = {
        "id": example.id,
        "label": example.label,
        "depth": tree.depth,
        **text,
        "signature": "" if tree.signature.name == MATH.name else tree.signature.name,
        "fold": example.fold,
        "pair": example.pair,
        "family": example.family,
        "class": example.value_class,
        "blank": example.blank,
        "certificate": example.certificate,
        "labels": list(example.labels),
    }
    return {key: value for key, value in line.items() if value not in ("", None, []) or key == "label"}
