"""Trees in files: memory-mapped columns, for more trees than fit into memory.

`ColumnWriter` takes the trees part by part and needs memory for one part. Equal subtrees of different parts get the same id: a
subtree has a key of 128 bits, made from its operator and the keys of its children, and ids are numbered by keys when all parts
are there. Their order is that of `Forest.build` for all trees at once.
"""

import itertools
import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data.forest import NODE, Forest, columns, kinds_of
from dgl_treestack.errors import DataError
from dgl_treestack.resources import sha256

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
        checksums = {name: sha256(self.folder / f"{name}.bin") for name in self.types}
        kinds = {name: [np.lib.format.dtype_to_descr(dtype), checksums[name]] for name, dtype in self.types.items()}
        manifest = {**description, "leaves": list(self.leaves), "columns": kinds}
        atomic.write_text(self.folder / MANIFEST, json.dumps(manifest))

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows into memory. A mapping would count as memory of the process, too, but for all rows."""
        dtype = self.types[name]
        return np.fromfile(self.folder / f"{name}.bin", dtype, stop - start, offset=start * dtype.itemsize)


def open_columns(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the manifest of a folder and its arrays, memory-mapped. Raises DataError unless all are as they were written.

    This is the only check: what is computed from the arrays relies on it.
    """
    arrays: dict[str, np.ndarray] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        manifest = json.loads((folder / MANIFEST).read_text())
        for name, (kind, checksum) in manifest["columns"].items():
            path, dtype = folder / f"{name}.bin", np.lib.format.descr_to_dtype(kind)
            if sha256(path) != checksum:  # read once more than needed; in pieces, so that it does not count as memory
                break
            # as a plain array: a slice of a `memmap` takes eight times as long (3.5 us in place of 0.44)
            arrays[name] = np.memmap(path, dtype, "r").view(np.ndarray) if path.stat().st_size else np.empty(0, dtype)
        else:
            return manifest, arrays
    raise DataError("The prepared columns are damaged. Delete the folder; it is made again.", folder)


def _mixed(number: np.ndarray) -> np.ndarray:
    """Return (..., 2) uint64 whose bits depend on all bits of the argument (splitmix64)."""
    for shift, factor in _SHIFTS_AND_FACTORS:
        number = (number ^ (number >> np.uint64(shift))) * np.uint64(factor)
    return number ^ (number >> np.uint64(31))
