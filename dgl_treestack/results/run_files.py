"""Files of runs that are not judged on equations, such as those of algorithmic tasks, in one file that can be committed.

A ZIP file, compressed by LZMA: `experiment.json`, and the files from which the experiment's tables are made, as `<run>/<file>`.
"""

import json
import lzma
import re
import zipfile
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path

from dgl_treestack import atomic
from dgl_treestack.errors import DataError

DESCRIPTION = "experiment.json"
MOST_BYTES = 1 << 27  # of one file
_NAME = re.compile(r"[\w-][\w.+-]*/[\w-][\w.+-]*")


def write(path: Path, experiment: str, folder: Path, kept: Collection[str]) -> None:
    """Write the files of these names of all finished runs in a folder. The same files give the same bytes."""
    files = [run / name for run in sorted(folder.iterdir()) if (run / "DONE").exists() for name in sorted(kept)]
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as target:
        target.writestr(zipfile.ZipInfo(DESCRIPTION), json.dumps({"experiment": experiment}), zipfile.ZIP_LZMA)
        for file in files:
            if file.exists():
                name = f"{file.parent.name}/{file.name}"
                target.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_LZMA)
    atomic.write_bytes(path, buffer.getvalue())


def experiment_of(path: Path) -> str:
    """Return the experiment whose files these are; '' for another kind of file."""
    try:
        with zipfile.ZipFile(path) as file:
            return str(json.loads(file.read(DESCRIPTION))["experiment"]) if DESCRIPTION in file.namelist() else ""
    except (OSError, zipfile.BadZipFile, lzma.LZMAError, EOFError, ValueError, KeyError, TypeError):
        return ""


def runs_in(path: Path) -> set[str]:
    """Return the names of the runs in a file."""
    return {name.split("/")[0] for name, _ in _read(path)}


def restore(path: Path, folder: Path) -> None:
    """Write the files of the runs that `folder` lacks into it. Raises DataError for a file that `write` has not written."""
    present = {run.name for run in folder.iterdir()} if folder.is_dir() else set()
    for name, content in sorted(_read(path), key=lambda entry: entry[0].endswith("/DONE")):  # DONE last
        if name.split("/")[0] not in present:
            atomic.write_bytes(folder / name, content)


def _read(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of all files."""
    try:
        with zipfile.ZipFile(path) as file:
            file.read(DESCRIPTION)
            for entry in file.infolist():
                if entry.filename != DESCRIPTION:
                    if not _NAME.fullmatch(entry.filename) or entry.file_size > MOST_BYTES:
                        raise DataError(f"It holds {entry.filename!r}, which is no file of a run.", path)
                    yield entry.filename, file.read(entry)
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    except (zipfile.BadZipFile, lzma.LZMAError, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"Not a complete file of runs ({error!r}). Make it again with `reproduce`.", path) from None
