"""A data set in files: prepared once as columns, then mapped and read as batches need it: it may be larger than the memory.

`ColumnWriter` takes the trees part by part and needs memory for one part. Equal subtrees of different parts get the same id: a
subtree has a key of 128 bits, made from its operator and the keys of its children, and ids are numbered by keys when all parts
are there. Their order is that of `Forest.build` for all trees at once.
"""

import gc
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data.forest import CODE, NODE, Forest, columns, in_order_of_appearance, kinds_of
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset, Texts
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
MANIFEST = "manifest.json"
_WIDE = np.dtype([(name, np.int32) for name in NODE.fields or ()])
_SHIFTS_AND_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of splitmix64
_SEEDS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)  # of the two halves of a key


# Raw files: a database was rejected, and so was releasing mapped pages by `madvise`, for want of need.
class ColumnWriter:
    """Writes a forest, and other arrays, to files of a folder part by part; `finish` numbers the subtrees of all parts."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.types: dict[str, np.dtype] = {}  # of the arrays by name
        self.leaves: dict[tuple[str, str], int] = {}  # those so far
        self.nodes, self.subtrees = [0], [0]  # how many there are after every part
        self.slices: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)  # kind -> its subtrees in every part
        self.largest = dict.fromkeys(NODE.fields or (), 0)

    def append(self, name: str, rows: np.ndarray) -> None:
        """Append rows to an array. All pieces of an array have one type."""
        self.types[name] = rows.dtype
        with (self.folder / f"{name}.bin").open("ab") as file:
            file.write(rows.tobytes())

    def add(self, forest: Forest, trees: Forest) -> None:
        """Append a part of the forest. forest: as `Forest.build` returns it. trees: those of its trees that are written."""
        # Kinds (S, 4), see `kinds_of`, and keys (S,) of the subtrees, in the order of their ids 0 .. S - 1
        signature, nodes = forest.signature, columns(forest, forest.signature)
        _, first = np.unique(nodes.subtree, return_index=True)
        op, height = nodes.op[first], nodes.height[first]
        children = np.where(nodes.children[first] >= 0, nodes.subtree[nodes.children[first]], -1)
        arity = (children >= 0).sum(1)
        kinds = kinds_of(op, height, arity, signature)
        token, number = (nodes.token[first, None].view(np.uint64), nodes.number[first, None].view(np.uint64))
        keys = _mixed(_mixed(_SEEDS ^ token) ^ number)  # of leaves; others follow, children first
        by_height = np.argsort(height, kind="stable")
        for level in np.split(by_height, np.flatnonzero(np.diff(height[by_height])) + 1)[1:]:
            key = _mixed(_SEEDS ^ (arity[level, None] * len(signature.operators) + op[level, None] + 1).view(np.uint64))
            for child in children[level].T:
                key = np.where(child[:, None] >= 0, _mixed(key + keys[child]), key)
            keys[level] = key
        starts = [0, *(np.flatnonzero((kinds[1:] != kinds[:-1]).any(1)) + 1).tolist(), len(kinds)]
        for start, stop in itertools.pairwise(starts):
            self.slices[tuple(kinds[start].tolist())].append((self.subtrees[-1] + start, self.subtrees[-1] + stop))
        number_of_leaf = [self.leaves.setdefault(leaf, len(self.leaves)) for leaf in forest.leaves]
        written = trees.nodes.astype(_WIDE)
        written["leaf"] = np.array([*number_of_leaf, -1])[trees.leaf]  # -1, of operators, is the last
        for name in self.largest:
            self.largest[name] = max(self.largest[name], int(written[name].max(initial=0)))
        self.append("wide nodes", written)
        self.append("keys", keys.view([("first", np.uint64), ("second", np.uint64)])[:, 0])
        self.append("sizes", trees.sizes)
        self.nodes.append(self.nodes[-1] + len(written))
        self.subtrees.append(self.subtrees[-1] + len(keys))

    def finish(self, description: dict[str, Any]) -> None:
        """Number the subtrees, write the nodes with these numbers, and the manifest: a description, types and checksums."""
        path, count = self.folder / "ids of subtrees.bin", 0
        with path.open("wb") as file:  # (S,) int64, of the subtrees of all parts
            for _, slices in sorted(self.slices.items()):  # a kind at a time
                keys = np.concatenate([self._read("keys", *part) for part in slices])
                order = np.lexsort((keys["second"], keys["first"]))  # stable: equal keys stay in the order of the parts
                is_new = np.ones(len(keys), dtype=bool)
                is_new[1:] = keys[order[1:]] != keys[order[:-1]]
                id_of_key = np.empty(int(is_new.sum()), dtype=np.int64)
                id_of_key[np.argsort(order[is_new])] = np.arange(count, count + len(id_of_key))
                ids = np.empty(len(keys), dtype=np.int64)
                ids[order] = id_of_key[np.cumsum(is_new) - 1]
                count += len(id_of_key)
                for start, stop in slices:
                    file.seek(ids.itemsize * start)
                    file.write(ids[: stop - start].tobytes())
                    ids = ids[stop - start :]
        self.largest["subtree"] = count
        # 9 to 15 bytes a node in place of 64: with them, training on ten million equations takes 2.67 GiB
        narrow = np.dtype([(name, np.min_scalar_type(-1 - self.largest[name])) for name in self.largest])
        for part in range(len(self.nodes) - 1):
            wide = self._read("wide nodes", *self.nodes[part : part + 2])
            start, stop = self.subtrees[part : part + 2]
            nodes = wide.astype(narrow)
            nodes["subtree"] = np.fromfile(path, np.int64, stop - start, offset=8 * start)[wide["subtree"]]
            self.append("nodes", nodes)
        for name in ("ids of subtrees", "wide nodes", "keys"):
            (self.folder / f"{name}.bin").unlink()
            self.types.pop(name, None)
        files = {name: self.folder / f"{name}.bin" for name in self.types}
        kinds = {name: [np.lib.format.dtype_to_descr(self.types[name]), sha256(file)] for name, file in files.items()}
        manifest = {**description, "leaves": list(self.leaves), "columns": kinds}
        atomic.write_text(self.folder / MANIFEST, json.dumps(manifest))

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows into memory. A mapping would count as memory of the process, too, but for all rows."""
        dtype = self.types[name]
        return np.fromfile(self.folder / f"{name}.bin", dtype, stop - start, offset=start * dtype.itemsize)


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
    writer = ColumnWriter(unfinished)
    keys_of_pairs: list[np.ndarray] = []
    low, high, count = math.inf, -math.inf, 0
    begun = reported = time.monotonic()
    try:
        for whole, part in parts:
            writer.add(whole, part.forest)
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
                writer.append(name, column)
            keys_of_pairs.append(_keys(example.pair or f"/{count + i}" for i, example in enumerate(part.examples)))
            if bounds := part.measured(group_by):
                low, high = min(low, bounds[0]), max(high, bounds[1])
            count += len(part)
            if (now := time.monotonic()) - reported >= INTERVAL:
                reported = now
                logger.info("columns of %s: %d examples, %.0f a second", folder.parent, count, count / (now - begun))
        if not count:
            raise DataError("There are no examples with labels for the tasks of the model.", folder.parent)
        writer.append("groups", in_order_of_appearance(np.concatenate(keys_of_pairs)))
        writer.finish({"made from": made_from, "measured": {group_by: [low, high]}})
        shutil.rmtree(folder, ignore_errors=True)  # if it is damaged: a folder with files cannot be renamed over
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return count


def read(folder: Path, made_from: dict[str, Any], vocabulary: Vocabulary, signature: Signature) -> Dataset:
    """Return the data set in a folder, memory-mapped. Raises DataError if it is damaged, or made from something else.

    This is the only check: what is computed from the arrays relies on it.
    """
    column: dict[str, np.ndarray] = {}
    fault = "The prepared columns are damaged."
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        description = json.loads((folder / MANIFEST).read_text())
        for name, (kind, checksum) in description["columns"].items():
            path, dtype = folder / f"{name}.bin", np.lib.format.descr_to_dtype(kind)
            if sha256(path) != checksum:  # read once more than needed; in pieces, so that it does not count as memory
                break
            # as a plain array: a slice of a `memmap` takes eight times as long (3.5 us in place of 0.44)
            column[name] = np.memmap(path, dtype, "r").view(np.ndarray) if path.stat().st_size else np.empty(0, dtype)
        else:
            is_other = description["made from"] != made_from
            fault = "These columns were made from other files or settings." if is_other else ""
    if fault:
        raise DataError(f"{fault} Delete the folder; it is made again.", folder)
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
    examples: those of the files that are wanted, read only if they are needed. selection: what decides which are wanted, as
    plain data. group_by: the measure whose range is kept. Raises DataError for an example that cannot be prepared, an id that
    occurs twice, or damaged columns, OutputError if files cannot be written, ConfigurationError for a user's task.
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


def _mixed(number: np.ndarray) -> np.ndarray:
    """Return (..., 2) uint64 whose bits depend on all bits of the argument (splitmix64)."""
    for shift, factor in _SHIFTS_AND_FACTORS:
        number = (number ^ (number >> np.uint64(shift))) * np.uint64(factor)
    return number ^ (number >> np.uint64(31))
