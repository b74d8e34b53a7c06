"""Files that are there whole or not at all, whenever the process dies."""

import contextlib
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dgl_treestack.errors import OutputError

_TEMPORARY = ".tmp"


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write a file atomically: a temporary file beside it, flushed to disk, then renamed over it. Raises OutputError."""
    with _replacing(Path(path)) as file:
        file.write(content)


def write_gzip(path: Path | str, pieces: Iterable[bytes]) -> None:
    """Write a gzip file atomically, piece by piece; the same pieces give the same bytes."""
    with _replacing(Path(path)) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for piece in pieces:
            packed.write(piece)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}. Choose another place.") from None


def write_text(path: Path | str, content: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, content.encode())


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that killed processes left in a folder and below. Only for folders that are ours alone."""
    for path in folder.rglob(f".*{_TEMPORARY}"):
        path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
