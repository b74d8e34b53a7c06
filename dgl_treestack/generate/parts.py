"""The parts of an unfinished data set: files of rows, each written completely or not at all."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dgl_treestack import atomic
from dgl_treestack.errors import DataError
from dgl_treestack.generate.presets import Row

_ENDING = ".jsonl.gz"


@dataclass(frozen=True)
class StoredParts:
    """The parts in a folder."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the existing parts, in alphabetical order."""
        return sorted(path.name.removesuffix(_ENDING) for path in self.folder.glob(f"*{_ENDING}"))

    def rows(self, name: str) -> Iterator[Row]:
        """Yield the rows of a part. Raises DataError when it is damaged."""
        path = self.folder / f"{name}{_ENDING}"
        try:
            if not path.stat().st_size:  # gzip reads an empty file without an error
                raise EOFError
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                yield from map(json.loads, lines)
        except (OSError, EOFError, zlib.error, ValueError):
            raise DataError("This part is damaged. Delete it; the same command generates it again.", path) from None

    def save(self, name: str, content: bytes) -> None:
        """Write a part, from what `pack` has made of its rows. Raises OutputError."""
        atomic.write_bytes(self.folder / f"{name}{_ENDING}", content)


def pack(rows: Iterable[Row]) -> bytes:
    """Return the content of the file of a part."""
    lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
    return gzip.compress("".join(lines).encode(), compresslevel=1, mtime=0)
