"""The equations of one or more files as columns: what an audit keeps of them. No tree is kept, so a million fit in memory."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dgl_treestack.audit.examination import Examination, digest
from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Expression
from dgl_treestack.generate.features import repetition, tokens

VERDICTS = ("holds", "refuted", "conditional", "undefined")
UNKNOWN = -1  # the label of an equation without one, and the verdict where none was asked for
ROOT = -1  # the parent token of a root

# per equation; "shape" is a digest of the arities, "text" one of the arities and tokens
_COLUMNS = {
    "file": "i", "pair": "q", "label": "b", "verdict": "b", "text": "Q", "shape": "Q", "key": "Q", "left": "Q", "right": "Q",
    "size": "i", "depth": "i", "left_size": "i", "left_depth": "i", "right_depth": "i", "distinct": "i", "common": "i",
}  # fmt: skip
_NODE_COLUMNS = {"token": "i", "parent": "i"}


@dataclass(frozen=True, eq=False)
class Corpus:
    """n equations with N nodes in all.

    files: names of the files. ids: per equation, `path:line` where the file gives none. tokens: the words for operators and
    leaves that node columns count in.
    columns: name -> (n,): `file`, `label` (1, 0, -1 unknown), `verdict` (position in VERDICTS, or -1), `pair` (a number that
    the members of a pair share; an equation without a pair has its own), the digests `text`, `shape`, `key`, `left`, `right`
    of 64 bits, `size`, `depth`, `left_size`, `left_depth`, `right_depth`, and the subtrees that are `distinct` and, leaves
    aside, `common` to both sides.
    token, parent: (N,) the token of a node and of its parent, in pre-order, tree after tree.
    """

    files: tuple[str, ...]
    ids: list[str]
    tokens: list[str]
    columns: dict[str, np.ndarray]
    token: np.ndarray
    parent: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n,) the first node of each equation."""
        sizes = self["size"].astype(np.int64)
        return np.cumsum(sizes) - sizes

    def nodes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of some equations: (position in `rows`, position within the tree), each of the length of all nodes."""
        sizes = self["size"][rows]
        starts = np.cumsum(sizes) - sizes
        return np.repeat(np.arange(len(rows)), sizes), np.arange(sizes.sum()) - np.repeat(starts, sizes)

    def names(self, rows: np.ndarray, within: np.ndarray) -> list[str]:
        """The ids of equations, with the file in front where the set `within`, that they are of, has several files."""
        if len(np.unique(self["file"][within])) < 2:
            return [self.ids[row] for row in rows.tolist()]
        return [f"{self.files[self['file'][row]]}:{self.ids[row]}" for row in rows.tolist()]

    def rows_of(self, file: int) -> np.ndarray:
        """(n,) bool: which equations are of a file."""
        return self["file"] == file


class CorpusBuilder:
    """Collects equations one at a time."""

    def __init__(self, files: Iterable[str]):
        self.files, self.ids = tuple(files), list[str]()
        self._columns = {name: array(code) for name, code in _COLUMNS.items()}
        self._nodes = {name: array(code) for name, code in _NODE_COLUMNS.items()}
        self._tokens: dict[str, int] = {}
        self._pairs: dict[tuple[int, str], int] = {}

    def add(self, file: int, example: Example, found: Examination) -> None:
        """Append one equation of a file (by position in `files`)."""
        tree, words = example.equation, self._words(example.equation)
        middle, arities = tree.ends[1], repr(tree.arities).encode()
        row = {
            "file": file,
            "pair": self._pair(file, example.pair),
            "label": UNKNOWN if example.label is None else example.label,
            "verdict": VERDICTS.index(found.verdict) if found.verdict else UNKNOWN,
            "shape": digest(arities),
            "text": digest(arities + words.tobytes()),
            "key": found.key,
            "left": found.left,
            "right": found.right,
            "size": tree.size,
            "depth": tree.depth,
            "left_size": middle - 1,
            "left_depth": tree.heights[1],
            "right_depth": tree.heights[middle],
            **repetition(tree),
        }
        for name, value in row.items():
            self._columns[name].append(value)
        self._nodes["token"].extend(words)
        self._nodes["parent"].extend(_parent_words(tree, words))
        self.ids.append(example.id or example.source)

    def _words(self, tree: Expression) -> array:
        known = self._tokens
        return array("i", [known.setdefault(word, len(known)) for word in tokens(tree)])

    def _pair(self, file: int, pair: str) -> int:
        """Pairs are named within a file; an equation without one is numbered below zero, by its row."""
        return self._pairs.setdefault((file, pair), len(self._pairs)) if pair else -1 - len(self.ids)

    def corpus(self) -> Corpus:
        columns = {name: _numbers(column) for name, column in self._columns.items()}
        return Corpus(self.files, self.ids, list(self._tokens), columns, **{k: _numbers(v) for k, v in self._nodes.items()})


def _parent_words(tree: Expression, words: array) -> array:
    parents = array("i", [ROOT]) * tree.size
    for i, arity in enumerate(tree.arities):
        if arity:
            for child in tree.children(i):
                parents[child] = words[i]
    return parents


def _numbers(column: array) -> np.ndarray:
    return np.frombuffer(column, dtype=column.typecode) if len(column) else np.zeros(0, dtype=column.typecode)
