"""The parts of a set that is being made: files of rows, each there whole or not at all."""

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
        return sorted(path.name.removesuffix(_ENDING) for path in self.folder.glob(f"*{_ENDING}"))

    def rows(self, name: str) -> Iterator[Row]:
        """The rows of a part. Raises DataError when it is damaged."""
        path = self._path(name)
        try:
            if not path.stat().st_size:  # gzip takes an empty file for one without content
                raise EOFError
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                yield from map(json.loads, lines)
        except (OSError, EOFError, zlib.error, ValueError):
            raise DataError("This part is damaged. Delete it; the same command makes it again.", path) from None

    def save(self, name: str, rows: Iterable[Row]) -> int:
        """Write a part and return the number of its rows. Raises OutputError."""
        content = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
        atomic.write_bytes(self._path(name), gzip.compress("".join(content).encode(), compresslevel=1, mtime=0))
        return len(content)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"
