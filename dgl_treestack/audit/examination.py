"""What an audit finds out about one equation by itself, in this process or in several."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.processes import workers
from dgl_treestack.truth import Verdict, judge, judge_rounded

SIDE_DEPTH = 2  # a side of less depth, such as `sin(x)`, is shared by chance
NO_SIDE = 0
MOST_DECIMALS = 20
_CHUNK = 64
_CHUNKS_AHEAD = 4  # per process: enough to keep it busy, little enough to keep a large file out of memory

Tree = tuple[tuple[str, ...], tuple[str | None, ...], tuple[int, ...], int | None]


class Wanted(NamedTuple):
    """The costly parts of an examination."""

    verdict: bool = True
    keys: bool = True


EVERYTHING = Wanted()


class Examination(NamedTuple):
    """verdict: as in `truth`, "" when not asked for. key, left, right: digests of 64 bits of the equation and its sides up to
    order and names (`folds.canonical_key`); `NO_SIDE` for a side of depth below `SIDE_DEPTH`, and when not asked for."""

    verdict: str
    key: int
    left: int
    right: int


def examine(equation: Expression, wanted: Wanted = EVERYTHING, decimals: int | None = None) -> Examination:
    """Examine one equation. decimals: of a number in it that is rounded.

    Raises ExpressionError when it is none, nests equations or has a blank.
    """
    if equation.names[0] != equation.signature.root:
        raise ExpressionError(f"Only equations can be audited; {equation.names[0]!r} is the root of this expression.")
    verdict = judged(equation, decimals).verdict if wanted.verdict else ""
    if not wanted.keys:
        return Examination(verdict, 0, NO_SIDE, NO_SIDE)
    sides = [_side_key(equation, i) for i in (1, equation.ends[1])]
    return Examination(verdict, _key(equation), *sides)


def judged(equation: Expression, decimals: int | None) -> Verdict:
    """The verdict on an equation, in which a number may be rounded to so many decimals."""
    return judge(equation) if decimals is None else judge_rounded(equation, decimals)


def decimals_of(example: Example) -> int | None:
    """The decimals that the certificate says a number was rounded to."""
    decimals = (example.certificate or {}).get("rounded")
    return decimals if type(decimals) is int and 0 <= decimals <= MOST_DECIMALS else None


def _side_key(equation: Expression, i: int) -> int:
    return _key(equation.subtree(i)) if equation.heights[i] >= SIDE_DEPTH else NO_SIDE


def _key(expression: Expression) -> int:
    return digest(canonical_key(expression).encode())


def digest(content: bytes) -> int:
    """64 bits of a text; never `NO_SIDE`."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") | 1


def examine_all(examples: Iterable[Example], wanted: Wanted, jobs: int = 1) -> Iterator[tuple[Example, Examination]]:
    """Every example with its examination, in order; `jobs` processes. Raises DataError with file and line."""
    chunks = _chunks(examples)
    results = map(lambda chunk: (chunk, _examine_chunk(_trees(chunk), wanted)), chunks) if jobs == 1 else None
    for chunk, found in results or _in_processes(chunks, wanted, jobs):
        for example, result in zip(chunk, found, strict=True):
            if isinstance(result, str):
                raise DataError(result, example.source or None)
            yield example, result


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    rest = iter(examples)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _trees(chunk: Sequence[Example]) -> list[Tree]:
    """Plain arrays and the decimals of a rounded number: a signature holds functions, which do not travel between processes."""
    return [(e.equation.names, e.equation.texts, e.equation.arities, decimals_of(e)) for e in chunk]


def _examine_chunk(trees: Sequence[Tree], wanted: Wanted) -> list[Examination | str]:
    """Per tree, what was found, or what is wrong with it."""
    found: list[Examination | str] = []
    for names, texts, arities, decimals in trees:
        try:
            found.append(examine(Expression(names, texts, arities), wanted, decimals))
        except ExpressionError as error:
            found.append(str(error))
    return found


def _in_processes(
    chunks: Iterator[list[Example]], wanted: Wanted, jobs: int
) -> Iterator[tuple[list[Example], list[Examination | str]]]:
    pending: deque[tuple[list[Example], Future]] = deque()
    with workers(jobs) as pool:
        for chunk in chunks:
            pending.append((chunk, pool.submit(_examine_chunk, _trees(chunk), wanted)))
            if len(pending) >= _CHUNKS_AHEAD * jobs:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
