"""Files of a tree per line, in the notation of their language: after a label and a tab (`.tsv`), or alone (`.txt`).

4<TAB>[MAX 2 4 [MIN 4 3 ] ]
=<TAB>(or a b)<TAB>(or b a)             a pair has two columns
(3 (2 It) (4 works))                    in the notation `labelled`, every node has a label
"""

from collections.abc import Iterable

from dgl_treestack.data.formats.example import Example, read_tree, root_label
from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation, notations
from dgl_treestack.expression.language import label_of
from dgl_treestack.expression.operators import UNKNOWN, Signature


def from_line(line: str, identity: str, source: str, *, language: Signature, has_label: bool) -> Example:
    """The example of a line. has_label: whether it begins with a label and a tab.

    Without one, the label is that of the root, if nodes have labels. Raises DataError or ExpressionError.
    """
    columns = (1 if language.root is None else 2) + has_label
    texts = line.rstrip("\r\n").split("\t")
    fault = ""
    if len(texts) != columns:
        what = f"{'a label and ' if has_label else ''}{columns - has_label} tree(s)"
        fault = f"In {language.name!r}, a line of a {'.tsv' if has_label else '.txt'} file has {what}: {columns} column(s) "
        fault += f"separated by tabs, found {len(texts)}."
    for i, entry in enumerate(() if fault else texts):  # without the quotation marks of csv writers; a leaf keeps those of JSON
        quoted, is_label = entry.strip(), has_label and not i
        content = quoted[1:-1]
        opening = ("(", "[") if language.notation == "lists" and not is_label else "("
        is_word = language.words and not is_label and not content.lstrip().startswith(opening) and '""' not in content
        if is_word or len(quoted) < 3 or quoted[0] != '"' or quoted[-1] != '"':
            continue
        if '"' in content.replace('""', ""):
            fault = 'A quotation mark in a quoted field is not doubled. Write "" for it, or no marks around the field.'
        texts[i] = content.replace('""', '"')
    if fault:
        raise DataError(fault)
    left, *right = texts[has_label:]
    tree, labels = read_tree(left, language, *right)
    label = root_label(label_of(texts[0], language) if has_label else None, labels)
    return Example(tree, label, identity, labels=labels, source=source)


def write(examples: Iterable[Example], *, has_label: bool) -> str:
    """The text of a file of examples; in the notation `labelled`, with the labels of nodes.

    Raises DataError for a label that the file has no place for.
    """
    lines = []
    for example in examples:
        tree = example.equation
        trees = [tree.left, tree.right] if isinstance(tree, Equation) else [tree]
        texts = [str(tree) for tree in trees]
        is_labelled = tree.signature.notation == "labelled" and len(trees) == 1
        if is_labelled:
            labels = example.labels or (example.label, *(None,) * (tree.size - 1))
            texts = [notations.write(tree, [UNKNOWN if label is None else str(label) for label in labels])]
        elif example.labels or not (has_label or example.label is None):
            raise DataError("Labels of nodes, and in a .txt file of trees, need the notation 'labelled'. Write .jsonl.")
        texts = [text.replace("(", r"\u0028").replace("[", r"\u005b") if text[0] == '"' else text for text in texts]
        label = [UNKNOWN if example.label is None else str(example.label)] if has_label else []
        lines.append("\t".join([*label, *texts]))
    return "".join(f"{line}\n" for line in lines)
