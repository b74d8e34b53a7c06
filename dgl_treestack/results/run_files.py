"""Files of runs that are not judged on equations, such as those of algorithmic tasks, in one file that can be committed.

A ZIP file, compressed by LZMA: `experiment.json`, and the files from which the experiment's tables are made, as `<run>/<file>`.
"""

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable
from io import BytesIO
from pathlib import Path

from dgl_treestack import atomic
from dgl_treestack.errors import DataError

DESCRIPTION = "experiment.json"
MOST_BYTES = 1 << 27  # of one file
MOST_FILES = 10_000
_NAME = re.compile(r"[\w-][\w.+-]*/[\w-][\w.+-]*")
_DAMAGED = (
    *(zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, NotImplementedError, RuntimeError),
    *(KeyError, TypeError, ValueError),
)


def write(path: Path, experiment: str, runs: Iterable[Path], kept: Collection[str]) -> None:
    """Write the files of these names of the finished ones among run folders. The same files give the same bytes."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as target:
        target.writestr(zipfile.ZipInfo(DESCRIPTION), json.dumps({"experiment": experiment}), zipfile.ZIP_LZMA)
        for run in sorted(run for run in runs if (run / "DONE").exists()):
            for name in sorted(kept):
                if (run / name).exists():
                    target.writestr(zipfile.ZipInfo(f"{run.name}/{name}"), (run / name).read_bytes(), zipfile.ZIP_LZMA)
    atomic.write_bytes(path, buffer.getvalue())


def experiment_of(path: Path) -> str:
    """Return the experiment whose files these are; '' for another kind of file."""
    try:
        with zipfile.ZipFile(path) as file:
            if DESCRIPTION not in file.namelist():
                return ""
            return str(json.loads(_content(file, DESCRIPTION))["experiment"])
    except (OSError, *_DAMAGED):
        return ""


def runs_in(path: Path) -> set[str]:
    """Return the names of the finished runs in a file."""
    with zipfile.ZipFile(path) as file:
        return {name.split("/")[0] for name in file.namelist() if name.endswith("/DONE")}


def restore(path: Path, folder: Path, kept: Collection[str]) -> None:
    """Write the files of these names of runs that are not finished in `folder` into it.

    Raises DataError for a file that `write` has not written.
    """
    finished = {run.name for run in folder.iterdir() if (run / "DONE").exists()} if folder.is_dir() else set[str]()
    try:
        with zipfile.ZipFile(path) as file:
            names = sorted(set(file.namelist()) - {DESCRIPTION}, key=lambda name: name.endswith("/DONE"))  # DONE last
            for name in names:
                if not _NAME.fullmatch(name) or name.split("/")[1] not in kept or len(names) > MOST_FILES:
                    raise DataError(f"It holds {name!r}, which is no file of a run, or too many files.", path)
            _content(file, DESCRIPTION)
            for name in names:
                if name.split("/")[0] not in finished:
                    atomic.write_bytes(folder / name, _content(file, name))
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    except _DAMAGED as error:
        raise DataError(f"Not a complete file of runs ({error!r}). Make it again with `reproduce`.", path) from None


def _content(file: zipfile.ZipFile, name: str) -> bytes:
    """Return a file's content. Raises ValueError if it is too large."""
    with file.open(name) as entry:
        content = entry.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{name} has more than {MOST_BYTES} bytes")
    return content
