"""Files of blanks with their candidates.

In our files, the certificate of a blank names its file of candidates, relative to the file of blanks; the default is
`candidates.jsonl.gz`. For the authors' files, the command line names the file of candidates.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError
from dgl_treestack.expression import Expression

Blank = tuple[Expression, int]  # an equation, and the node to predict
DEFAULT_CANDIDATES = "candidates.jsonl.gz"


@dataclass(frozen=True)
class Question:
    """A blank.

    index: of the example in its file. blank: the equation and the node to predict. truth: index of the blanked expression
    among the candidates. right, doubtful: value classes with which the equation holds, and those that a ranking omits.
    """

    index: int
    example: Example
    blank: Blank
    truth: int
    right: frozenset[str]
    doubtful: frozenset[str]


@dataclass(frozen=True)
class Group:
    """Blanks with the same candidates.

    candidates, classes: expressions, and the value class of each. frequent: the value class that fills most of the blanks.
    """

    candidates: Sequence[Expression]
    classes: Sequence[str]
    questions: Sequence[Question]
    frequent: str


def read(blanks: Path, candidates: Path | None = None) -> list[Group]:
    """Read the questions of a file, grouped by their candidates.

    candidates: the file of candidates for all of them. Raises DataError.
    """
    examples_by_path: dict[Path, list[tuple[int, Example]]] = {}
    for index, example in enumerate(formats.read(blanks)):
        if example.blank is None:
            raise DataError("It has no blank. Give a file of equations with blanks.", example.source or blanks)
        name = str((example.certificate or {}).get("candidates", DEFAULT_CANDIDATES))
        path = candidates or blanks.parent / name
        if not candidates and not (path.parent == blanks.parent and path.is_file()):
            raise DataError(f"Its candidates, {name!r}, are not a file beside it. Name their file with --candidates.", blanks)
        examples_by_path.setdefault(path, []).append((index, example))
    groups = []
    for path, examples in examples_by_path.items():
        fillers = read_candidates(path)
        expressions, classes = [filler.equation for filler in fillers], [filler.value_class for filler in fillers]
        positions = {expression: i for i, expression in reversed(list(enumerate(expressions)))}
        questions = []
        for index, example in examples:
            source, node, certificate = example.source or None, example.blank or 0, example.certificate or {}
            blanked = example.equation.subtree(node)
            if blanked not in positions:
                raise DataError(f"What was blanked, {blanked}, is not among the candidates of {path.name}.", source)
            truth, names_of = positions[blanked], {key: certificate.get(key, []) for key in ("right", "doubtful")}
            for key, names in names_of.items():
                if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                    raise DataError(f"{key!r} in the certificate is {names!r}; it must be a list of class names.", source)
            right, doubtful = frozenset(names_of["right"] or [classes[truth]]), frozenset(names_of["doubtful"])
            if classes[truth] not in right - doubtful:
                raise DataError(f"The class of what was blanked, {classes[truth]!r}, is not among the right ones.", source)
            questions.append(Question(index, example, (example.equation, node), truth, right, doubtful))
        ((frequent, _),) = Counter(name for question in questions for name in sorted(question.right)).most_common(1)
        groups.append(Group(expressions, classes, questions, frequent))
    return groups


def read_candidates(path: Path) -> list[Example]:
    """Read a file of expressions with value classes. Raises DataError for one without, and for no expression at all."""
    examples = list(formats.read(path))
    for example in examples:
        if not example.value_class:
            raise DataError("The expression has no value class. Add the key 'class'.", example.source or path)
    if not examples:
        raise DataError("There are no candidates in the file.", path)
    return examples
