"""A data set in files beside its source, for one larger than the memory: prepared once, then read as batches need it."""

import gc
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data.forest import CODE, Forest, in_order_of_appearance
from dgl_treestack.data.formats import Example
from dgl_treestack.data.stored_forest import ColumnFiles, ForestWriter
from dgl_treestack.data.vocabulary import NO_TOKEN
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.model.dataset import Dataset, settings_of_columns
from dgl_treestack.model.model import Model
from dgl_treestack.processes import locked
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.sequence.encoders import Encoder

logger = logging.getLogger(__name__)
FORMAT = 1  # version of the files
PART = 20_000  # examples that are in memory at once while columns are written
INTERVAL = 60  # seconds between lines of progress
SUFFIX = ".columns"  # of the folder beside the first file
MANIFEST = "columns.json"


@dataclass(frozen=True, eq=False)
class Texts(Sequence[str]):
    """Texts in memory-mapped bytes. offsets: (G + 1,) text i is content[offsets[i] : offsets[i + 1]]."""

    offsets: np.ndarray
    content: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> Any:
        chosen = range(len(self))[i]
        return self.content[self.offsets[chosen] : self.offsets[chosen + 1]].tobytes().decode()


def prepare_on_disk(
    model: Model, files: Sequence[str], examples: Iterable[Example], *, selection: Sequence[Any], group_by: str
) -> Dataset:
    """Return the data set of columns of files, which are written first if there are none, or if a file has changed since.

    They are in a folder beside the first file. While another process writes them, this one waits.

    files: by path or bundled name. examples: those of the files that are wanted, read only if they are
    needed. selection: what decides which are wanted, as plain data. group_by: the measure whose range is kept.

    Raises DataError for an example that cannot be prepared, an id that occurs twice, or columns that are not as long as they
    were, OutputError if files cannot be written, ConfigurationError for a user's task.
    """
    for task in model.heads.values():
        if not task.is_ours():
            raise ConfigurationError(
                f"Columns on disk cannot tell whether the code of the task {task.name!r} has changed. Train in memory: "
                "--columns memory."
            )
    sources = [find_data(name) for name in files]
    settings = settings_of_columns(model.vocabulary, model.signature, list(model.heads))
    made_from = {
        "files": [sha256(path) for path in sources],
        "settings": [FORMAT, isinstance(model.cell, Encoder), group_by, list(selection), *settings],
    }
    key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
    parent = sources[0].with_name(sources[0].name + SUFFIX)
    folder, unfinished = parent / key, parent / f".{key}"
    try:
        parent.mkdir(exist_ok=True)
        with locked(parent):
            for path in parent.iterdir():
                if path.name.startswith(".") or _source_of(path) != made_from["files"][0]:
                    shutil.rmtree(path, ignore_errors=True)
            if not folder.is_dir():
                unfinished.mkdir()
                try:
                    _write(unfinished, model, examples, group_by, made_from)
                    os.replace(unfinished, folder)
                except BaseException:
                    shutil.rmtree(unfinished, ignore_errors=True)
                    raise
            description = json.loads((folder / MANIFEST).read_text())
            column = ColumnFiles(folder, description["columns"]).open
            leaves = tuple((str(kind), str(text)) for kind, text in description["leaves"])
            offsets = {name: np.concatenate([[0], np.cumsum(column(name))]) for name in ("sizes", "outputs", "id sizes")}
            codes = np.array([*(model.vocabulary.code(*leaf) for leaf in leaves), (NO_TOKEN, 0.0)], dtype=CODE)
            return Dataset(
                forest=Forest(model.signature, leaves, column("nodes"), offsets["sizes"], codes),
                offsets=offsets["outputs"],
                nodes=column("nodes of outputs"),
                sides=column("sides").reshape(-1, 2),
                targets=column("targets"),
                task=column("task"),
                ids=Texts(offsets["id sizes"], column("ids")),
                groups=column("groups"),
                description=description,
            )
    except OSError as error:
        raise OutputError(
            f"{parent} cannot be written: {error.strerror or error}. Columns on disk lie beside their file; make room, copy "
            "the file to another place, or train in memory: --columns memory."
        ) from None


def _source_of(folder: Path) -> Any:
    """Return the checksum of the first file that the columns of a folder were made from, None without columns."""
    try:
        return json.loads((folder / MANIFEST).read_text())["made from"]["files"][0]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _write(folder: Path, model: Model, examples: Iterable[Example], group_by: str, made_from: dict[str, Any]) -> None:
    """Write the columns of all examples that have targets, and the manifest."""
    columns = ColumnFiles(folder)
    forest = ForestWriter(columns)
    keys_of_ids: list[np.ndarray] = []
    keys_of_pairs: list[np.ndarray] = []
    low, high, count = math.inf, -math.inf, 0
    remaining, begun = iter(examples), time.monotonic()
    reported = begun
    gc.disable()  # millions of trees without cycles
    try:
        while part := list(itertools.islice(remaining, PART)):
            prepared = model.prepare(part)
            labelled = prepared.with_targets()
            forest.add(prepared.forest, np.unique(prepared.example_of_output[np.isfinite(prepared.targets)]))
            texts = [name.encode() for name in labelled.ids]
            columns.append("outputs", np.diff(labelled.offsets))
            columns.append("nodes of outputs", labelled.nodes.astype(np.int32))
            columns.append("sides", labelled.sides.reshape(-1).astype(np.int32))
            columns.append("targets", labelled.targets)
            columns.append("task", labelled.task.astype(np.int16))
            columns.append("id sizes", np.array([len(text) for text in texts], dtype=np.int64))
            columns.append("ids", np.frombuffer(b"".join(texts), dtype=np.uint8))
            file_of = (example.source.rpartition(":")[0] for example in part)
            keys_of_ids.append(_keys(f"{file}:{example.id}" for file, example in zip(file_of, part, strict=True) if example.id))
            keys_of_pairs.append(_keys(example.pair or f"/{count + i}" for i, example in enumerate(labelled.examples)))
            if bounds := labelled.measured(group_by):
                low, high = min(low, bounds[0]), max(high, bounds[1])
            count += len(labelled)
            if (now := time.monotonic()) - reported >= INTERVAL:
                reported = now
                logger.info("columns of %s: %d examples, %.0f a second", folder.parent, count, count / (now - begun))
    finally:
        gc.enable()
    if not count:
        raise DataError("There are no examples with labels for the tasks of the model.", folder.parent)
    ids = np.concatenate(keys_of_ids)
    if len(np.unique(ids)) < len(ids):
        raise DataError(
            "An id occurs twice; ids are unique. `treestack audit` says which.", str(folder.parent).removesuffix(SUFFIX)
        )
    forest.finish()
    columns.append("groups", in_order_of_appearance(np.concatenate(keys_of_pairs)))
    description = {
        "made from": made_from,
        "examples": count,
        "measured": {group_by: [low, high]},
        "leaves": list(forest.leaves),
        "columns": columns.kinds,
    }
    atomic.write_text(folder / MANIFEST, json.dumps(description))
    logger.info("columns of %s: %d examples in %.0f s", folder.parent, count, time.monotonic() - begun)


def _keys(texts: Iterable[str]) -> np.ndarray:
    """Return (n,) 64 bits of the hashes of texts."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.uint64)
