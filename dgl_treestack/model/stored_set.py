"""A data set in files: prepared once, then read as batches need it, so that it may be larger than the memory."""

import gc
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgl_treestack.data.forest import CODE, Forest, in_order_of_appearance
from dgl_treestack.data.formats import Example
from dgl_treestack.data.stored_forest import ColumnWriter, open_columns
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.processes import locked
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.sequence.encoders import Encoder

if TYPE_CHECKING:
    from dgl_treestack.model.model import Model

logger = logging.getLogger(__name__)
FORMAT = 1  # version of the columns
PART = 20_000  # examples that are in memory at once while columns are written
INTERVAL = 60  # seconds between lines of progress
SUFFIX = ".columns"  # of the folder beside the first file


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


def origin(
    checksums: Sequence[str], vocabulary: Vocabulary, signature: Signature, tasks: Sequence[str], *settings: Any
) -> dict[str, Any]:
    """Return plain data of all that the columns of a set depend on. checksums: of its files. settings: further ones."""
    operators = [(op.name, op.arity) for op in signature.operators]
    labels = [signature.classes, signature.class_of_label, signature.numeric, signature.notation]
    common = [vocabulary.to_dict(), signature.name, operators, signature.root, labels, list(tasks)]
    made_from: dict[str, Any] = json.loads(json.dumps({"files": list(checksums), "settings": [FORMAT, *settings, *common]}))
    return made_from  # as it is read back: tuples are lists in JSON


def write(folder: Path, parts: Iterable[tuple[Forest, Dataset]], made_from: dict[str, Any], group_by: str = "depth") -> int:
    """Write a data set as columns in a folder, which is replaced, and return its number of examples.

    parts: the set in parts, each with the forest that its trees were selected from. made_from: see `origin`. group_by: the
    measure whose range is kept. Raises DataError for a set without examples, OSError or OutputError.
    """
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir(parents=True)
    columns = ColumnWriter(unfinished)
    keys_of_pairs: list[np.ndarray] = []
    low, high, count = math.inf, -math.inf, 0
    begun = reported = time.monotonic()
    try:
        for whole, part in parts:
            columns.add(whole, part.forest)
            texts = [name.encode() for name in part.ids]
            for name, column in {
                "outputs": np.diff(part.offsets),
                "nodes of outputs": part.nodes.astype(np.int32),
                "sides": part.sides.reshape(-1).astype(np.int32),
                "targets": part.targets,
                "task": part.task.astype(np.int16),
                "id sizes": np.array([len(text) for text in texts], dtype=np.int64),
                "ids": np.frombuffer(b"".join(texts), dtype=np.uint8),
            }.items():
                columns.append(name, column)
            keys_of_pairs.append(_keys(example.pair or f"/{count + i}" for i, example in enumerate(part.examples)))
            if bounds := part.measured(group_by):
                low, high = min(low, bounds[0]), max(high, bounds[1])
            count += len(part)
            if (now := time.monotonic()) - reported >= INTERVAL:
                reported = now
                logger.info("columns of %s: %d examples, %.0f a second", folder.parent, count, count / (now - begun))
        if not count:
            raise DataError("There are no examples with labels for the tasks of the model.", folder.parent)
        columns.append("groups", in_order_of_appearance(np.concatenate(keys_of_pairs)))
        columns.finish({"made from": made_from, "measured": {group_by: [low, high]}})
        shutil.rmtree(folder, ignore_errors=True)  # if it is damaged: a folder with files cannot be renamed over
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return count


def read(folder: Path, made_from: dict[str, Any], vocabulary: Vocabulary, signature: Signature) -> Dataset:
    """Return the data set in a folder, memory-mapped. Raises DataError if it is damaged, or made from something else."""
    description, column = open_columns(folder)
    if description["made from"] != made_from:
        raise DataError("These columns were made from other files or settings. Delete the folder; it is made again.", folder)
    leaves = tuple((str(kind), str(text)) for kind, text in description["leaves"])
    offsets = {name: np.concatenate([[0], np.cumsum(column[name])]) for name in ("sizes", "outputs", "id sizes")}
    codes = np.array([*(vocabulary.code(*leaf) for leaf in leaves), (NO_TOKEN, 0.0)], dtype=CODE)
    return Dataset(
        forest=Forest(signature, leaves, column["nodes"], offsets["sizes"], codes),
        offsets=offsets["outputs"],
        nodes=column["nodes of outputs"],
        sides=column["sides"].reshape(-1, 2),
        ids=Texts(offsets["id sizes"], column["ids"]),
        targets=column["targets"],
        task=column["task"],
        groups=column["groups"],
        description=description,
    )


def prepare_on_disk(
    model: "Model", files: Sequence[str], examples: Iterable[Example], *, selection: Sequence[Any], group_by: str
) -> Dataset:
    """Return the data set of columns of files, which are written first if there are none, or if a file has changed since.

    They are in a folder beside the first file. While another process writes them, this one waits.
    files: by path or bundled name. examples: those of the files that are wanted, read only if they are needed. selection: what
    decides which are wanted, as plain data. group_by: the measure whose range is kept.
    Raises DataError for an example that cannot be prepared, an id that occurs twice, or columns that are damaged, OutputError
    if files cannot be written, ConfigurationError for a user's task.
    """
    for task in model.heads.values():
        if not task.is_ours():
            raise ConfigurationError(
                f"Columns on disk cannot tell whether the code of the task {task.name!r} has changed. Train in memory: "
                "--columns memory."
            )
    sources = [find_data(name) for name in files]
    settings = isinstance(model.cell, Encoder), group_by, list(selection)
    made_from = origin([sha256(path) for path in sources], model.vocabulary, model.signature, list(model.heads), *settings)
    parent = sources[0].with_name(sources[0].name + SUFFIX)
    state_of_source = made_from["files"][0][:16]
    folder = parent / f"{state_of_source}-{hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]}"
    try:
        parent.mkdir(exist_ok=True)
        with locked(parent):
            for path in parent.iterdir():
                if not path.name.startswith(f"{state_of_source}-"):  # unfinished, of another state, of an earlier version
                    shutil.rmtree(path, ignore_errors=True)
            if not folder.is_dir():
                begun = time.monotonic()
                gc.disable()  # millions of trees without cycles
                try:
                    count = write(folder, _parts(model, examples, sources[0]), made_from, group_by)
                finally:
                    gc.enable()
                logger.info("columns of %s: %d examples in %.0f s", parent, count, time.monotonic() - begun)
            return read(folder, made_from, model.vocabulary, model.signature)
    except OSError as error:
        raise OutputError(
            f"{parent} cannot be written: {error.strerror or error}. Columns on disk lie beside their file; make room, copy "
            "the file to another place, or train in memory: --columns memory."
        ) from None


def _parts(model: "Model", examples: Iterable[Example], source: Path) -> Iterator[tuple[Forest, Dataset]]:
    """Prepare examples part by part. Raises DataError that names the source, the first file, when an id occurs twice."""
    keys_of_ids: list[np.ndarray] = []  # 8 bytes an id; the ids of ten million examples would take 1.5 GB
    remaining = iter(examples)
    while part := list(itertools.islice(remaining, PART)):
        prepared = model.prepare(part)
        yield prepared.forest, prepared.with_targets()
        file_of = (example.source.rpartition(":")[0] for example in part)
        keys_of_ids.append(_keys(f"{file}:{example.id}" for file, example in zip(file_of, part, strict=True) if example.id))
    ids = np.concatenate([np.empty(0, np.uint64), *keys_of_ids])
    if len(np.unique(ids)) < len(ids):
        raise DataError("An id occurs twice; ids are unique. `treestack audit` says which.", source)


def _keys(texts: Iterable[str]) -> np.ndarray:
    """Return (n,) 64 bits of the hashes of texts."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.uint64)
