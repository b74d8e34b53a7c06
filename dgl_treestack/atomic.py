"""Atomic writes: a file is complete or absent, even if the process is killed."""

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dgl_treestack.errors import OutputError

_TEMPORARY = ".tmp"


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write a file atomically: to a temporary file beside it, flushed to disk, then renamed over it. Raises OutputError."""
    with _replacing(Path(path)) as file:
        file.write(content)


def write_text(path: Path | str, content: str) -> None:
    """Write a UTF-8 text file atomically. Raises OutputError."""
    write_bytes(path, content.encode())


def write_json_lines(path: Path | str, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line, atomically, in their order. Raises OutputError."""
    write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))


def write_gzip(path: Path | str, pieces: Iterable[bytes]) -> None:
    """Write a gzip file atomically, piece by piece; the same pieces give the same bytes. Raises OutputError."""
    # without the time of writing, which gzip has in its header
    with _replacing(Path(path)) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        for piece in pieces:
            compressed.write(piece)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of killed processes in a folder and below. Only for folders that this program created."""
    for path in folder.rglob(f".*{_TEMPORARY}"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends, and is deleted when the block raises."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside the file: a rename is atomic within one file system only.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                # No test covers what a crash of the machine leaves: the suite replaces fsync by nothing, for its time.
                os.fsync(file.fileno())
            mask = os.umask(0)  # the only way to read it is to set it
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # makes the rename durable
        finally:
            os.close(folder)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}. Choose another place.") from None
