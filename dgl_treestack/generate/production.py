"""Generation of a preset: shards in a process pool, each saved when it is done, then the files and their manifest.

A shard is saved completely or not at all, under `parts/` of the output folder, so an interruption loses only the shards in
progress, and the same command continues. The files depend on the options alone, not on the number of jobs.
"""

import gc
import gzip
import hashlib
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import as_completed
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dgl_treestack import __version__, atomic
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.generate import presets
from dgl_treestack.generate.presets import Parts, Preset, Row, SetOptions, Shard
from dgl_treestack.processes import Jobs, locked, workers

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
MOST = {"train_size": 10_000_000, "equations": 10_000_000, "max_depth": 100, "far_lists": 1_000_000}
INTERVAL = 60.0  # seconds between two lines of progress without a terminal


def produce(name: str, options: SetOptions, folder: Path, jobs: Jobs = 1, progress: bool = False) -> dict[str, Any]:
    """Generate a preset's files in a folder and return the manifest. Finished shards and folders are not generated again.

    While another process generates in the folder, wait for it. Raises ConfigurationError for an option that the preset does not
    have or a folder with other settings, DataError for a missing file of a finished folder, OutputError if a file cannot be
    written or a worker process dies.
    """
    preset, folder, problems = presets.find(name), Path(folder), list[str]()
    for key, value in asdict(options).items():
        if not 0 <= value <= MOST.get(key, value):
            limit = f" to {MOST[key]}" if key in MOST else " on"
            problems.append(f"{key} is {value}; it is a whole number from 0{limit}.")
        elif value and key != "seed" and key not in preset.accepts:
            allowed_names = ", ".join(sorted(preset.accepts)) or "none beside the seed"
            problems.append(f"The preset {name!r} has no option {key!r}; it has {allowed_names}.")
    if isinstance(jobs, int) and jobs < 1:
        problems.append(f"The number of jobs is {jobs}; at least one is needed.")
    settings = {"preset": name, "options": options.to_dict(), "version": __version__}
    path, text = folder / "settings.json", json.dumps(settings, indent=1) + "\n"
    if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
        problems.append(f"{folder} holds data of other settings ({path}). Choose another folder, or delete that one.")
    if problems:
        raise ConfigurationError(problems[0])
    if not path.exists():
        atomic.write_text(path, text)
    parts = Parts(folder / "parts")
    with locked(folder):
        if (folder / MANIFEST).exists():
            manifest = read_manifest(folder)
            gone = [folder / file for file in manifest["files"] if not (folder / file).is_file()]
            if gone:
                raise DataError("The manifest names this file, which is gone. Delete the folder and generate again.", gone[0])
        else:
            manifest = _produce(preset, options, parts, settings, jobs, progress)
        shutil.rmtree(parts.folder, ignore_errors=True)  # also of a process that was killed beside its manifest
    return manifest


def _produce(
    preset: Preset, options: SetOptions, parts: Parts, settings: dict[str, Any], jobs: Jobs, progress: bool
) -> dict[str, Any]:
    """Make the missing parts, then the files and the manifest beside their folder; return the manifest."""
    folder, rounds = parts.folder.parent, preset.rounds(options, parts)
    atomic.remove_leftovers(parts.folder)
    try:
        while True:
            try:
                finished = {*parts.names()}
                missing = [shard for shard in next(rounds) if shard.name not in finished]
            except StopIteration as end:
                rows_of_file, notes = end.value
                break
            if missing:
                _make(settings["preset"], options, missing, parts, jobs, progress)
        files = {file: _write(folder / file, rows) for file, rows in rows_of_file.items()}
        manifest = {**settings, "files": files, "notes": notes}
        atomic.write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except (KeyboardInterrupt, OutputError) as error:
        saved = f"{len(parts.names())} finished shards are kept in {parts.folder}. Run the same command again to continue."
        if isinstance(error, OutputError):
            raise OutputError(f"{error} {saved}") from None
        logger.warning("Stopped. %s", saved)
        raise
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest that `produce` wrote into a folder. Raises DataError when it is missing or damaged."""
    path, problem = Path(folder) / MANIFEST, "The manifest is damaged. Delete the folder and generate again."
    try:
        manifest = json.loads(path.read_text())
        if isinstance(manifest["preset"], str) and isinstance(manifest["files"], dict):
            return manifest
    except (OSError, ValueError, KeyError, TypeError):
        if not path.is_file():
            problem = "There is no manifest. Name a folder that `treestack generate` has finished."
    raise DataError(problem, path)


def _make(name: str, options: SetOptions, shards: list[Shard], parts: Parts, jobs: Jobs, progress: bool) -> None:
    """Generate shards, in this process or in a process pool. progress: draw a bar, or else log a line a minute."""
    begun = reported = time.monotonic()
    with nullcontext() if jobs == 1 else workers(jobs) as pool:
        if pool is None:
            contents = ((shard.name, make_shard(name, options, shard)) for shard in shards)
        else:
            name_of_task = {pool.submit(make_shard, name, options, shard): shard.name for shard in shards}
            contents = ((name_of_task.pop(task), task.result()) for task in as_completed(name_of_task))  # results are not kept
        with tqdm(total=len(shards), desc=name, unit="shard", disable=not progress) as bar:
            for done, (shard_name, content) in enumerate(contents, 1):
                parts.save(shard_name, content)
                bar.update()
                now = time.monotonic()
                if not progress and now - reported >= INTERVAL:
                    reported, seconds_of_shard = now, (now - begun) / done
                    left = tqdm.format_interval(seconds_of_shard * (len(shards) - done))
                    message = "%s: %d of %d shards, %.1f a minute, about %s left"
                    logger.info(message, name, done, len(shards), 60 / seconds_of_shard, left)


def make_shard(name: str, options: SetOptions, shard: Shard) -> bytes:
    """Generate one shard; return the content of its file."""
    gc.disable()  # millions of trees without cycles; the search for cycles would take a fifth of the time
    try:
        lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in presets.find(name).make(options, shard)]
        return gzip.compress("".join(lines).encode(), compresslevel=1, mtime=0)
    finally:
        gc.enable()


def _write(path: Path, rows: Iterable[Row]) -> dict[str, Any]:
    """Write a file; return its entry in the manifest: the counts and a checksum.

    A file `.txt` has the text of every row as a line; any other is compressed and has rows as JSON.
    """
    digest, plain = hashlib.sha256(), path.suffix == ".txt"
    counts, on_cut = Counter[tuple[int, str]](), Counter[int]()

    def lines() -> Iterator[bytes]:
        for row in rows:
            counts[row["depth"], str(row["label"])] += 1
            on_cut[row["depth"]] += bool((row.get("certificate") or {}).get("cut"))
            line = ((row["text"] if plain else json.dumps(row)) + "\n").encode()
            digest.update(line)
            yield line

    if plain:
        atomic.write_bytes(path, b"".join(lines()))
    else:
        atomic.write_gzip(path, lines())
    by_depth: dict[str, dict[str, int]] = {}
    for (depth, label), count in sorted(counts.items()):
        by_depth.setdefault(str(depth), {})[label] = count
    entry = {"equations": sum(counts.values()), "sha256 of the text": digest.hexdigest(), "by depth and label": by_depth}
    return entry | ({"on a branch cut, by depth": {str(depth): on_cut[depth] for depth in sorted(on_cut)}} if +on_cut else {})
