"""Files of blanks with their candidates.

A blank of ours names its file of candidates in its certificate (beside its own file), or has `candidates.jsonl.gz` beside it;
a blank of the authors has the file that is named on the command line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError
from dgl_treestack.expression import Expression

BESIDE = "candidates.jsonl.gz"


@dataclass(frozen=True)
class Candidates:
    """What may fill a blank: expressions, and the value class of each."""

    expressions: tuple[Expression, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """A blank. place: of the example in its file. truth: the candidate that was blanked. right, doubtful: classes."""

    place: int
    example: Example
    truth: int
    right: frozenset[str]
    doubtful: frozenset[str]

    @property
    def blank(self) -> tuple[Expression, int]:
        """For `scoring.scores`."""
        assert self.example.blank is not None  # `_question` has seen to it
        return self.example.equation, self.example.blank


def read(blanks: Path, candidates: Path | None = None) -> list[tuple[Candidates, list[Question]]]:
    """The questions of a file, those with the same candidates together. Raises DataError."""
    groups: dict[Path, list[tuple[int, Example]]] = {}
    for place, example in enumerate(formats.read(blanks)):
        if example.blank is None:
            raise DataError("It has no blank. Give a file of equations with blanks.", example.source or blanks)
        groups.setdefault(candidates or _named(blanks, example), []).append((place, example))
    found = []
    for path, examples in groups.items():
        known = read_candidates(path)
        index = {expression: i for i, expression in reversed(list(enumerate(known.expressions)))}
        found.append((known, [_question(place, example, known, index, path) for place, example in examples]))
    return found


def read_candidates(path: Path) -> Candidates:
    """A file of expressions with classes. Raises DataError."""
    examples = list(formats.read(path))
    for example in examples:
        if not example.value_class:
            raise DataError("A candidate has a value class, key 'class'.", example.source or path)
    if not examples:
        raise DataError("There are no candidates in the file.", path)
    return Candidates(tuple(example.equation for example in examples), tuple(example.value_class for example in examples))


def _named(blanks: Path, example: Example) -> Path:
    path = blanks.parent / str((example.certificate or {}).get("candidates", BESIDE))
    if not path.is_file():
        raise DataError(f"Its candidates, {path.name}, are not beside it. Name their file with --candidates.", blanks)
    return path


def _question(place: int, example: Example, known: Candidates, index: dict[Expression, int], path: Path) -> Question:
    source, blanked = example.source or None, example.equation.subtree(example.blank or 0)
    if blanked not in index:
        raise DataError(f"What was blanked, {blanked}, is not among the candidates of {path.name}.", source)
    truth, certificate = index[blanked], example.certificate or {}
    right = frozenset(_classes(certificate, "right", source) or [known.classes[truth]])
    doubtful = frozenset(_classes(certificate, "doubtful", source))
    if known.classes[truth] not in right - doubtful:
        raise DataError(f"The class of what was blanked, {known.classes[truth]!r}, is not among the right ones.", source)
    return Question(place, example, truth, right, doubtful)


def _classes(certificate: dict, key: str, source: str | None) -> Sequence[str]:
    names = certificate.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{key!r} in its certificate is {names!r}; it lists names of classes.", source)
    return names
