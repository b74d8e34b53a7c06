"""Tab-separated files: a label and a tree per line, or a label and two trees, in the notation of their language.

4<TAB>[MAX 2 4 [MIN 4 3 ] ]
=<TAB>(or a b)<TAB>(or b a)
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from dgl_treestack.data.formats.example import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import UNKNOWN, Signature


def read(path: Path, lines: Iterable[str], language: Signature) -> Iterator[Example]:
    """The examples of lines, with ids by line number. A label `UNKNOWN` is None. Raises DataError with file and line."""
    trees_per_line = 1 if language.root is None else 2
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        label, *texts = line.rstrip("\r\n").split("\t")
        try:
            if len(texts) != trees_per_line:
                raise DataError(
                    f"{language.name!r} has {trees_per_line} tree(s) per line: {trees_per_line + 1} columns separated by tabs "
                    f"are needed, found {1 + len(texts)}."
                )
            trees = [Expression.parse(text, language) for text in texts]
            tree = trees[0] if len(trees) == 1 else Equation.of(*trees)
            label_of_example = None if label == UNKNOWN else language.label(label)
        except (DataError, ExpressionError) as error:
            raise DataError(str(error), path, number) from None
        yield Example(tree, label_of_example, str(number), source=f"{path}:{number}")


def write(examples: Iterable[Example]) -> str:
    """The text of a file of examples."""
    lines = []
    for example in examples:
        tree = example.equation
        trees = (tree.left, tree.right) if isinstance(tree, Equation) else (tree,)
        lines.append("\t".join([UNKNOWN if example.label is None else str(example.label), *map(str, trees)]))
    return "".join(f"{line}\n" for line in lines)
