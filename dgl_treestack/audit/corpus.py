"""The equations of one or more files as columns. No tree is stored, so that a million equations fit in memory."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dgl_treestack.audit.examination import ROUNDED, digest, examine_all
from dgl_treestack.data.formats import Example
from dgl_treestack.generate import assembly
from dgl_treestack.processes import Jobs

VERDICTS = ("holds", "refuted", "conditional", "undefined", "undecided")
OUTCOMES = (*VERDICTS, ROUNDED)
UNKNOWN = -1  # label of an unlabelled equation, verdict of one that was not judged
ROOT = -1  # the parent token of a root

# type codes of the columns per equation: "shape" is a digest of the arities, "text" one of the arities and tokens
_COLUMNS = {
    "file": "i", "pair": "q", "label": "b", "verdict": "b", "text": "Q", "shape": "Q", "key": "Q", "left": "Q", "right": "Q",
    "size": "i", "depth": "i", "left_size": "i", "left_depth": "i", "right_depth": "i", "distinct": "i", "common": "i",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class EquationTable:
    """n equations with N nodes in all.

    files: names of the files. ids: per equation, `path:line` if the file gives none. tokens: names of operators and leaves;
    token columns hold positions in it.
    columns: name -> (n,): `file`, `label` (1, 0, -1 unknown), `verdict` (position in OUTCOMES, or -1), `pair` (a number that
    the members of a pair share; an equation without a pair has its own), the digests `text`, `shape`, `key`, `left`, `right`
    of 64 bits, `size`, `depth`, `left_size`, `left_depth`, `right_depth`, and the numbers of subtrees that are `distinct` and
    that are `common` to both sides, leaves not counted.
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

    def nodes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, for each of the M nodes of some equations, three arrays (M,).

        They are the position of the node's equation in `rows`, its index in the tree, and its index in `token` and `parent`.
        """
        offsets = np.cumsum(self["size"], dtype=np.int64) - self["size"]
        sizes = self["size"][rows]
        starts = np.cumsum(sizes) - sizes
        position = np.repeat(np.arange(len(rows)), sizes)
        index = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        return position, index, offsets[rows][position] + index

    def names(self, rows: np.ndarray, within: np.ndarray) -> list[str]:
        """Return the ids of equations of the set `within`, prefixed by the file if the set has several files."""
        if len(np.unique(self["file"][within])) < 2:
            return [self.ids[row] for row in rows.tolist()]
        return [f"{self.files[self['file'][row]]}:{self.ids[row]}" for row in rows.tolist()]


def build(
    files: Iterable[tuple[str, Iterable[Example]]], *, verdicts: bool = False, keys: bool = False, jobs: Jobs = 1
) -> EquationTable:
    """Examine the equations of files, name after name, and return them as a corpus.

    verdicts, keys, jobs: see `examination.examine_all`. Raises DataError for an equation that cannot be examined.
    """
    names, ids = list[str](), list[str]()
    columns = {name: array(code) for name, code in _COLUMNS.items()}
    all_tokens, all_parents = array("i"), array("i")
    number_of_token: dict[str, int] = {}
    number_of_pair: dict[tuple[int, str], int] = {}
    for file, (name, examples) in enumerate(files):
        names.append(name)
        for example, examination in examine_all(examples, verdicts=verdicts, keys=keys, jobs=jobs):
            tree = example.equation
            tokens = array("i", [number_of_token.setdefault(word, len(number_of_token)) for word in assembly.tokens(tree)])
            parents = array("i", [ROOT]) * tree.size
            for i, arity in enumerate(tree.arities):
                for child in tree.children(i) if arity else ():
                    parents[child] = tokens[i]
            pair = -1 - len(ids)  # an equation without a pair is numbered below zero, by its row
            if example.pair:  # names of pairs are local to a file
                pair = number_of_pair.setdefault((file, example.pair), len(number_of_pair))
            middle, arities = tree.ends[1], repr(tree.arities).encode()
            row = {
                "file": file,
                "pair": pair,
                "label": example.label if isinstance(example.label, int) else UNKNOWN,
                "shape": digest(arities),
                "text": digest(arities + tokens.tobytes()),
                **examination,
                "verdict": OUTCOMES.index(examination["verdict"]) if examination["verdict"] else UNKNOWN,
                "size": tree.size,
                "depth": tree.depth,
                "left_size": middle - 1,
                "left_depth": tree.heights[1],
                "right_depth": tree.heights[middle],
                **assembly.repetition(tree),
            }
            for column, value in row.items():
                columns[column].append(value)
            all_tokens.extend(tokens)
            all_parents.extend(parents)
            ids.append(example.id or example.source)
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return EquationTable(tuple(names), ids, list(number_of_token), arrays, np.asarray(all_tokens), np.asarray(all_parents))
