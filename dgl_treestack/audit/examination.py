"""Examination of single equations, in this process or in a process pool."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any

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
