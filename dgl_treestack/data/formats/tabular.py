"""Files of a tree per line, in the notation of their language: after a label and a tab (`.tsv`), or alone (`.txt`).

4<TAB>[MAX 2 4 [MIN 4 3 ] ]
=<TAB>(or a b)<TAB>(or b a)             a pair has two columns
(3 (2 It) (4 works))                    in the notation `labelled`, every node has a label
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from dgl_treestack.data.formats.example import Example
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import UNKNOWN, Label, Signature


def read(path: Path, lines: Iterable[str], language: Signature, *, has_label: bool) -> Iterator[Example]:
    """The examples of lines, with ids by line number. has_label: whether a line begins with a label and a tab.

    Without one, the label is that of the root, if nodes have labels. Raises DataError with file and line.
    """
    columns = (1 if language.root is None else 2) + has_label
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        texts = line.rstrip("\r\n").split("\t")
        try:
            if len(texts) != columns:
                what = f"{'a label and ' if has_label else ''}{columns - has_label} tree(s)"
                raise DataError(
                    f"In {language.name!r}, a line of a {'.tsv' if has_label else '.txt'} file has {what}: {columns} column(s) "
                    f"separated by tabs, found {len(texts)}."
                )
            labels: tuple[Label, ...] = ()
            if language.notation == "labelled" and columns - has_label == 1:
                tree, labels = read_labelled(texts[-1], language)
            else:
                trees = [Expression.parse(text, language) for text in texts[has_label:]]
                tree = trees[0] if len(trees) == 1 else Equation.of(*trees)
            label = language.label(texts[0]) if has_label else labels[0] if labels else None
        except (DataError, ExpressionError) as error:
            raise DataError(str(error), path, number) from None
        yield Example(tree, label, str(number), labels=labels, source=f"{path}:{number}")


def read_labelled(text: str, language: Signature) -> tuple[Expression, tuple[Label, ...]]:
    """The tree of a text in the notation `labelled`, and the labels of its nodes; none if all are unknown.

    Raises ExpressionError, and DataError for a label that the language does not have.
    """
    from dgl_treestack.expression import constituents

    nodes, texts = constituents.read(text, language)
    labels = tuple(language.label(label) for label in texts) if set(texts) != {UNKNOWN} else ()
    return Expression.from_nodes(nodes, language), labels


def write(examples: Iterable[Example], *, has_label: bool) -> str:
    """The text of a file of examples; in the notation `labelled`, with the labels of nodes."""
    lines = []
    for example in examples:
        tree = example.equation
        trees = [tree.left, tree.right] if isinstance(tree, Equation) else [tree]
        texts = [str(tree) for tree in trees]
        if example.labels and tree.signature.notation == "labelled":
            from dgl_treestack.expression import constituents

            texts = [constituents.write(tree.texts, tree.arities, "labelled", [_text(label) for label in example.labels])]
        lines.append("\t".join([*([_text(example.label)] if has_label else []), *texts]))
    return "".join(f"{line}\n" for line in lines)


def _text(label: Label) -> str:
    return UNKNOWN if label is None else str(label)
