"""Files of equations: our JSON Lines and the authors' JSON, told apart by suffix (`.jsonl` or `.json`, each may end in `.gz`).

Both are read as a stream of `Example`; every error names the file and the line.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from dgl_treestack import atomic
from dgl_treestack.data.formats import authors, lines
from dgl_treestack.data.formats.example import Example as Example
from dgl_treestack.data.formats.lines import to_dict as to_dict
from dgl_treestack.errors import DataError
from dgl_treestack.expression.operators import MATH, Signature

SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


def read(path: Path | str, signature: Signature = MATH) -> Iterator[Example]:
    """The examples of a file, one at a time, in file order. signature: of its operators; the authors' JSON has the papers'.

    Raises DataError with file and line.
    """
    path = Path(path)
    return authors.read(path) if _is_authors(path) else lines.read(path, signature)


def write(path: Path | str, examples: Iterable[Example]) -> int:
    """Write examples atomically and return their number; the same examples give the same bytes."""
    path, examples = Path(path), list(examples)
    text = authors.write(examples) if _is_authors(path) else "".join(json.dumps(to_dict(e)) + "\n" for e in examples)
    content = text.encode()
    atomic.write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return len(examples)


def _is_authors(path: Path) -> bool:
    """Whether the suffix is that of the authors' JSON. Raises DataError for a suffix of neither format."""
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"A file of equations ends in one of {', '.join(SUFFIXES)}.", path)
    return path.name.removesuffix(".gz").endswith(".json")
