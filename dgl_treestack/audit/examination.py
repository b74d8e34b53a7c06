"""Examination of single equations, in this process or in a process pool."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.truth import Verdict, judge, judge_rounded

SIDE_DEPTH = 2  # shallower sides, such as `sin(x)`, are shared by chance
NO_SIDE = 0
MOST_DECIMALS = 20
ROUNDED = "equal when rounded"  # verdict where the sides differ, by half of the last decimal that is written at most
# a side such as 0.83, -0.83 or 1.2e-5 in prefix form: the digits after the point, and the exponent
_DECIMAL = re.compile(r"(?:Mul )?(?:NegativeOne )?(?:Float|Number):[+-]?\d*\.(\d+)(?:[eE]([+-]?\d+))?(?: NegativeOne)?")
_CHUNK = 64
_CHUNKS_AHEAD = 4  # per process: enough to keep it busy, few enough not to hold a large file in memory

# names, texts and arities of an equation, and the decimals of a rounded number in it, not validated
Tree = tuple[tuple[str, ...], tuple[str | None, ...], tuple[int, ...], Any]


class Parts(NamedTuple):
    """The expensive parts of an examination. verdict: judge the equation. keys: compute digests of equation and sides."""

    verdict: bool = True
    keys: bool = True


ALL_PARTS = Parts()


class Examination(NamedTuple):
    """The result of an examination.

    verdict: of `judge_equation`, "" if not judged.
    key, left, right: digests of 64 bits of the equation and its sides, up to the order of terms and the names of variables
    (`folds.canonical_key`); `NO_SIDE` for a side of depth below `SIDE_DEPTH`; 0 if not computed.
    """

    verdict: str
    key: int
    left: int
    right: int


def examine(equation: Expression, parts: Parts = ALL_PARTS, decimals: Any = None) -> Examination:
    """Examine one equation. decimals: see `judge_equation`.

    Raises ExpressionError for an expression that is not an equation, nests equations or has a blank.
    """
    if equation.names[0] != equation.signature.root:
        raise ExpressionError(f"Only equations can be audited; {equation.names[0]!r} is the root of this expression.")
    verdict = judge_equation(equation, decimals).verdict if parts.verdict else ""
    if not parts.keys:
        return Examination(verdict, 0, NO_SIDE, NO_SIDE)
    left, right = (
        digest(canonical_key(equation.subtree(i)).encode()) if equation.heights[i] >= SIDE_DEPTH else NO_SIDE
        for i in (1, equation.ends[1])
    )
    return Examination(verdict, digest(canonical_key(equation).encode()), left, right)


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


def examine_all(examples: Iterable[Example], parts: Parts, jobs: Jobs = 1) -> Iterator[tuple[Example, Examination]]:
    """Yield every example with its examination, in order, from a pool if there are several processes, or a cluster.

    Raises DataError with file and line for an equation that cannot be examined.
    """
    chunks = _read_chunks(examples)
    in_process = ((chunk, _examine_trees(trees, parts)) for chunk, trees in chunks)
    for chunk, results in in_process if jobs == 1 else _examine_in_pool(chunks, parts, jobs):
        for example, result in zip(chunk, results, strict=True):
            if isinstance(result, str):
                raise DataError(result, example.source or None)
            yield example, result


def _read_chunks(examples: Iterable[Example]) -> Iterator[tuple[list[Example], list[Tree]]]:
    """Yield chunks of examples, and their equations as plain tuples, which take less time to send to a process."""
    remaining = iter(examples)
    while chunk := list(islice(remaining, _CHUNK)):
        trees: list[Tree] = []
        for example in chunk:
            tree, certificate = example.equation, example.certificate or {}
            trees.append((tree.names, tree.texts, tree.arities, certificate.get("rounded")))
        yield chunk, trees


def _examine_trees(trees: Sequence[Tree], parts: Parts) -> list[Examination | str]:
    """Return for each tree its examination, or the message of the error that it raises."""
    results: list[Examination | str] = []
    for names, texts, arities, decimals in trees:
        try:
            results.append(examine(Expression(names, texts, arities), parts, decimals))
        except ExpressionError as error:
            results.append(str(error))
    return results


def _examine_in_pool(
    chunks: Iterable[tuple[list[Example], list[Tree]]], parts: Parts, jobs: Jobs
) -> Iterator[tuple[list[Example], list[Examination | str]]]:
    pending: deque[tuple[list[Example], Future]] = deque()
    with workers(jobs) as pool:
        width = jobs if isinstance(jobs, int) else jobs.width
        for chunk, trees in chunks:
            pending.append((chunk, pool.submit(_examine_trees, trees, parts)))
            if len(pending) >= _CHUNKS_AHEAD * width:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
