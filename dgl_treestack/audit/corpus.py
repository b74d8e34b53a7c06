"""The equations of one or more files as columns. No tree is stored, so that a million equations fit in memory.

Every equation is examined, in this process or in a process pool.
"""

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.generate import assembly
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.truth import Verdict, judge, judge_rounded

SIDE_DEPTH = 2  # shallower sides, such as `sin(x)`, are shared by chance
NO_SIDE = 0
MOST_DECIMALS = 20
ROUNDED = "equal when rounded"  # verdict where the sides differ, by half of the last decimal that is written at most
VERDICTS = ("holds", "refuted", "conditional", "undefined", "undecided")
OUTCOMES = (*VERDICTS, ROUNDED)
UNKNOWN = -1  # label of an unlabelled equation, verdict of one that was not judged
ROOT = -1  # the parent token of a root
EXPECTED = {1: "holds", 0: "refuted"}  # label -> verdict that agrees with it
LABELS = {1: "correct", 0: "incorrect", None: "unknown"}
# a side such as 0.83, -0.83 or 1.2e-5 in prefix form: the digits after the point, and the exponent
_DECIMAL = re.compile(r"(?:Mul )?(?:NegativeOne )?(?:Float|Number):[+-]?\d*\.(\d+)(?:[eE]([+-]?\d+))?(?: NegativeOne)?")
_CHUNK = 64
_CHUNKS_AHEAD = 4  # per process: enough to keep it busy, few enough not to hold a large file in memory

# names, texts and arities of an equation, and the decimals of a rounded number in it, not validated; it takes less time to
# send to a process than an expression
Tree = tuple[tuple[str, ...], tuple[str | None, ...], tuple[int, ...], Any]
Examination = dict[str, Any]

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

    verdicts, keys, jobs: see `examine_all`. Raises DataError for an equation that cannot be examined.
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


def judge_equation(equation: Expression, decimals: Any) -> Verdict:
    """Return the verdict on an equation: as in `truth`, or `ROUNDED` in place of refuted.

    decimals: those of a rounded number in it, from `rounded` of its certificate; any other value means not rounded.
    """
    if type(decimals) is int and 0 <= decimals <= MOST_DECIMALS:
        return judge_rounded(equation, decimals)
    verdict = judge(equation)
    sides = (_DECIMAL.fullmatch(equation.subtree(side).prefix()) for side in equation.children(0))
    written = [len(side[1]) - int(side[2] or 0) for side in sides if side and verdict.verdict == "refuted"]
    is_rounded = len(written) == 1 and written[0] > 0 and judge_rounded(equation, written[0]).verdict == "holds"
    return replace(verdict, verdict=ROUNDED) if is_rounded else verdict


def digest(content: bytes) -> int:
    """Return 64 bits that identify a text; never `NO_SIDE`."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") | 1


def examine_all(
    examples: Iterable[Example], *, verdicts: bool, keys: bool, jobs: Jobs
) -> Iterator[tuple[Example, Examination]]:
    """Yield every example with its examination, in order, from a pool if there are several processes, or a cluster.

    verdicts: judge the equations; `verdict` is that of `judge_equation`, "" without. keys: compute digests of 64 bits; `key`,
    `left` and `right` are those of the equation and its sides, up to the order of terms and the names of variables
    (`folds.canonical_key`), `NO_SIDE` for a side of depth below `SIDE_DEPTH`, and 0 without. Both are expensive.
    Raises DataError with file and line for an equation that cannot be examined.
    """
    remaining = iter(examples)
    pending: deque[tuple[list[Example], Callable[[], list[Examination | str]]]] = deque()
    ahead = 1 if jobs == 1 else _CHUNKS_AHEAD * (jobs if isinstance(jobs, int) else jobs.width)
    with nullcontext() if jobs == 1 else workers(jobs) as pool:
        while (chunk := list(islice(remaining, _CHUNK))) or pending:
            if chunk:
                trees = []
                for example in chunk:
                    tree, certificate = example.equation, example.certificate or {}
                    trees.append((tree.names, tree.texts, tree.arities, certificate.get("rounded")))
                task = partial(_examine_trees, trees, verdicts=verdicts, keys=keys)
                pending.append((chunk, pool.submit(task).result if pool else task))
            if len(pending) >= ahead or not chunk:
                first, results = pending.popleft()
                for example, result in zip(first, results(), strict=True):
                    if isinstance(result, str):
                        raise DataError(result, example.source or None)
                    yield example, result


def _examine_trees(trees: Sequence[Tree], *, verdicts: bool, keys: bool) -> list[Examination | str]:
    """Return for each tree its examination, or the message of the error that it raises."""
    results: list[Examination | str] = []
    for names, texts, arities, decimals in trees:
        equation = Expression(names, texts, arities)
        if names[0] != equation.signature.root:
            results.append(f"Only equations can be audited; {names[0]!r} is the root of this expression.")
            continue
        try:
            verdict = judge_equation(equation, decimals).verdict if verdicts else ""
        except ExpressionError as error:
            results.append(str(error))
            continue
        left, right = (
            digest(canonical_key(equation.subtree(i)).encode()) if keys and equation.heights[i] >= SIDE_DEPTH else NO_SIDE
            for i in (1, equation.ends[1])
        )
        key = digest(canonical_key(equation).encode()) if keys else 0
        results.append({"verdict": verdict, "key": key, "left": left, "right": right})
    return results
