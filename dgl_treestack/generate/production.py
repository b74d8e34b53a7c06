"""Making a preset: shards in several processes, each saved as it is done, then the files and their manifest.

A shard is saved whole or not at all, under `parts/` of the output folder, so whatever stops the work costs at most the
shards in hand, and the same command goes on from there. The files depend on the options alone, not on the number of jobs.
"""

import gc
import hashlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dgl_treestack import __version__, atomic
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.generate import presets
from dgl_treestack.generate.parts import StoredParts
from dgl_treestack.generate.presets import Options, Row, Shard
from dgl_treestack.processes import workers

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
MOST = {"train_size": 10_000_000, "equations": 10_000_000, "max_depth": 100}
_SETTINGS = "settings.json"
_PARTS = "parts"


def produce(name: str, options: Options, folder: Path, jobs: int = 1, progress: bool = False) -> dict[str, Any]:
    """Make a preset's files in a folder and return the manifest; what is there already is not made again.

    Raises ConfigurationError when an option means nothing to the preset or the folder holds other settings, OutputError
    when a file cannot be written or a worker process dies.
    """
    preset = presets.find(name)
    _check(name, options, jobs)
    folder = Path(folder)
    settings = {"preset": name, "options": asdict(options), "version": __version__}
    _claim(folder, settings)
    if (folder / MANIFEST).exists():
        return _finished(folder)
    parts = StoredParts(folder / _PARTS)
    atomic.remove_leftovers(parts.folder)
    try:
        while missing := _missing(preset.shards(options, parts), parts):
            _make(name, options, missing, parts, jobs, progress)
        product = preset.finish(options, parts)
        files = {file: _write(folder / file, rows) for file, rows in product.files.items()}
        manifest = {**settings, "files": files, "notes": product.notes}
        atomic.write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except KeyboardInterrupt:
        logger.warning("Stopped. %s", _kept(parts))
        raise
    except OutputError as error:
        raise OutputError(f"{error} {_kept(parts)}") from None
    shutil.rmtree(parts.folder, ignore_errors=True)
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `produce` wrote about a folder. Raises DataError when it is not there or damaged."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise DataError("There is no manifest. Name a folder that `treestack generate` has finished.", path)
    try:
        manifest = json.loads(path.read_text())
        if not isinstance(manifest["preset"], str) or not isinstance(manifest["files"], dict):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("The manifest is damaged. Delete the folder and generate anew.", path) from None
    return manifest


def _finished(folder: Path) -> dict[str, Any]:
    """The manifest of a folder that is done. Raises DataError when a file of it is gone."""
    manifest = read_manifest(folder)
    for file in manifest["files"]:
        if not (folder / file).is_file():
            raise DataError("The manifest names this file, which is gone. Delete the folder and generate anew.", folder / file)
    return manifest


def _missing(shards: list[Shard], parts: StoredParts) -> list[Shard]:
    made = set(parts.names())
    return [shard for shard in shards if shard.name not in made]


def _check(name: str, options: Options, jobs: int) -> None:
    accepts = presets.find(name).accepts
    for key, value in asdict(options).items():
        if not 0 <= value <= MOST.get(key, value):
            limit = f" to {MOST[key]}" if key in MOST else " on"
            raise ConfigurationError(f"{key} is {value}; it is a whole number from 0{limit}.")
        if value and key != "seed" and key not in accepts:
            known = ", ".join(sorted(accepts)) or "none beside the seed"
            raise ConfigurationError(f"The preset {name!r} has no option {key!r}; it has {known}.")
    if jobs < 1:
        raise ConfigurationError(f"The number of jobs is {jobs}; at least one is needed.")


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Mark a folder as that of these settings. Raises ConfigurationError when it is another's."""
    path = folder / _SETTINGS
    wanted = json.dumps(settings, indent=1) + "\n"
    if path.exists() and not (path.is_file() and path.read_bytes() == wanted.encode()):
        raise ConfigurationError(f"{folder} holds data of other settings ({path}). Choose another folder, or delete that one.")
    if not path.exists():
        atomic.write_text(path, wanted)


def _make(name: str, options: Options, shards: list[Shard], parts: StoredParts, jobs: int, progress: bool) -> None:
    with tqdm(total=len(shards), desc=name, unit="shard", disable=not progress) as bar:
        if jobs == 1:
            for shard in shards:
                make_shard(name, options, shard, parts)
                bar.update()
            return
        with workers(jobs) as pool:
            _collect([pool.submit(make_shard, name, options, shard, parts) for shard in shards], bar)


def _collect(futures: list[Future], bar: tqdm) -> None:
    for future in as_completed(futures):
        future.result()
        bar.update()


def _kept(parts: StoredParts) -> str:
    return f"{len(parts.names())} finished shards are kept in {parts.folder}; the same command goes on from there."


def make_shard(name: str, options: Options, shard: Shard, parts: StoredParts) -> int:
    """Make and save one shard."""
    gc.disable()  # trees are made by the million and have no cycles; looking for some would take a fifth of the time
    try:
        return parts.save(shard.name, presets.find(name).make(options, shard))
    finally:
        gc.enable()


def _write(path: Path, rows: Iterable[Row]) -> dict[str, Any]:
    """Write a file of equations and say what is in it."""
    digest, counts = hashlib.sha256(), Counter[tuple[int, str]]()

    def content() -> Iterator[bytes]:
        for row in rows:
            counts[row["depth"], str(row["label"])] += 1
            line = (json.dumps(row) + "\n").encode()
            digest.update(line)
            yield line

    atomic.write_gzip(path, content())
    by_depth = {
        f"{depth}": {label: counts[d, label] for d, label in sorted(counts) if d == depth} for depth, _ in sorted(counts)
    }
    return {"equations": sum(counts.values()), "sha256 of the text": digest.hexdigest(), "by depth and label": by_depth}
