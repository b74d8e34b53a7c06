"""One example, a tree with its metadata; and a line of our format, one JSON object for an example."""

from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import DataError, unknown
from dgl_treestack.expression import Expression, infix, notations
from dgl_treestack.expression.language import label_of
from dgl_treestack.expression.operators import MATH, UNKNOWN, WITHOUT_OPERATORS, Label, Node, Signature
from dgl_treestack.plain_data import read_object

MAX_INFIX_DEPTH = 60  # deeper trees are written in prefix form
_VERDICT_OF_LABEL = {1: "holds", 0: "refuted"}
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "text", "prefix", "signature", "fold", "pair", "family", "class"), (str,)),
    **dict.fromkeys(("depth", "blank"), (int,)),
    "label": (int, float, str, type(None)),
    "labels": (list,),
    "certificate": (dict,),
}


@dataclass(frozen=True)
class Example:
    """One equation, or another tree, with its metadata.

    label: 1 correct, 0 incorrect, None unknown; in a language with classes, the name of one; in one with numbers, a number.
    labels: of every node in pre-order, if the nodes have labels; the first of them is `label`. fold: train, validation or test.
    pair: shared by the two members of a matched pair. family: the root derivation it was grown from. certificate: how the
    label was certified. blank: the node to be predicted (the equation still holds the true subtree there), if any.
    value_class: equivalence class of a candidate. source: `path:line` where it was read, for messages; it is neither written
    to files nor part of equality.
    """

    equation: Expression
    label: Label = None
    id: str = ""
    fold: str = ""
    pair: str = ""
    family: str = ""
    certificate: dict[str, Any] | None = None
    blank: int | None = None
    value_class: str = ""
    labels: tuple[Label, ...] = ()
    source: str = field(default="", compare=False)


def from_line(line: str, _: str, source: str, signature: Signature) -> Example:
    """The example of a line, which is JSON with checked keys and types. Raises DataError or ExpressionError."""
    data, fault = read_object(line, "One line holds one equation."), ""
    for key, value in data.items():
        kinds = _TYPES.get(key, ())
        if not isinstance(value, kinds) or isinstance(value, bool):  # a bool is an int in Python
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            fault = f"{key!r} must be {expected}, found {value!r}." if kinds else unknown("key", key, _TYPES)
    if fault:
        raise DataError(fault)
    return from_dict(data, source, signature)


def from_dict(data: dict[str, Any], source: str = "", signature: Signature = MATH) -> Example:
    """The example of one line, from values of the right types. Raises DataError or ExpressionError, without file and line."""
    language_of_line = data.get("signature", signature.name if signature.words else MATH.name)
    fault = ""
    if ("text" in data) == ("prefix" in data):
        fault = "Exactly one of the keys 'text' and 'prefix' gives the equation."
    elif language_of_line != signature.name:
        only = ", the language of audit, verify and complete" if signature.name == MATH.name else ""
        fault = f"Its operators are those of {language_of_line!r}, not of {signature.name!r}{only}. Give the run the language "
        fault += "of the file, [data] language, or read it in Python: formats.read(path, signature)."
    elif "text" in data and signature.notation == "prefix":
        fault = f"{signature.name!r} has no notation for the key 'text'. Write its trees as 'prefix'."
    if fault:
        raise DataError(fault)
    labels: tuple[Label, ...] = ()
    if "prefix" in data:
        tree = Expression.from_prefix(data["prefix"], signature).recognised()
    else:
        tree, labels = read_tree(data["text"], signature)
    label, certificate, blank = data.get("label"), data.get("certificate"), data.get("blank")
    if "labels" in data and any(labels):
        fault = "The labels are in 'text' and in 'labels'. Take one of them out."
    elif len(data.get("labels", tree.names)) != tree.size:
        fault = f"'labels' has {len(data['labels'])} entries for {tree.size} nodes. Write one for each, null if unknown."
    elif data.get("depth", tree.depth) != tree.depth:
        fault = f"'depth' says {data['depth']}, the tree has {tree.depth} (a leaf is 0, '=' counts). Correct it."
    elif blank is not None and not 0 <= blank < tree.size:
        fault = f"'blank' is node {blank} of a tree with {tree.size} nodes."
    elif isinstance(label, str) and not signature.classes:
        fault = f"'label' must be {'a number' if signature.numeric else 'int'} or null, found {label!r}."
    if fault:
        raise DataError(fault)
    if "labels" in data:
        labels = tuple(None if of_node is None else label_of(of_node, signature) for of_node in data["labels"])
    label = None if label is None else label_of(label, signature)
    label = root_label(label, labels) if labels else label
    verdict = _VERDICT_OF_LABEL[label] if isinstance(label, int) else None
    if verdict and certificate and certificate.get("verdict", verdict) != verdict:
        raise DataError(f"'label' is {label} but the certificate says {certificate['verdict']!r}. One of them is wrong.")
    texts = {key: data.get(key, "") for key in ("id", "fold", "pair", "family")}
    more = {"certificate": certificate, "blank": blank, "value_class": data.get("class", "")}
    return Example(tree, label, labels=labels, source=source, **texts, **more)


def to_dict(example: Example) -> dict[str, Any]:
    """One line of our format as plain data; empty fields are left out."""
    tree = example.equation
    notation = tree.signature.notation
    is_pair_without_name = notation in WITHOUT_OPERATORS and tree.names[0] == tree.signature.root
    is_too_deep = notation == "infix" and tree.depth > MAX_INFIX_DEPTH
    has_text = notation != "prefix" and not (is_pair_without_name or is_too_deep)
    text = {"text": str(tree)} if has_text else {"prefix": tree.prefix()}
    line = {
        "id": example.id,
        "label": example.label,
        "depth": tree.depth,
        **text,
        "signature": "" if tree.signature.name == MATH.name else tree.signature.name,
        "fold": example.fold,
        "pair": example.pair,
        "family": example.family,
        "class": example.value_class,
        "blank": example.blank,
        "certificate": example.certificate,
        "labels": list(example.labels),
    }
    return {key: value for key, value in line.items() if value not in ("", None, []) or key == "label"}


def root_label(label: Label, labels: tuple[Label, ...]) -> Label:
    """The label of a tree, given for itself or as that of its root. Raises DataError if both are known and differ."""
    of_root = labels[0] if labels else None
    if None not in (label, of_root) and label != of_root:
        raise DataError(f"The tree has the label {label!r} and its root {of_root!r}. Correct one, or write {UNKNOWN!r}.")
    return of_root if label is None else label


def read_tree(text: str, language: Signature, right: str | None = None) -> tuple[Expression, tuple[Label, ...]]:
    """The tree of a text and the labels of its nodes; there are none if the notation has none, or all are unknown.

    right: text of the second side, if the tree is a pair. Raises ExpressionError, and DataError for a label that the language
    does not have, and for a label at a node of a pair.
    """
    if right is None and language.notation == "infix":  # most lines; 4 us less than below
        return Expression.parse(text, language).recognised(), ()
    sides = [text] if right is None else [text, right]
    nodes: list[Node] = [] if right is None else [(language.root or "Equality", None, 2)]
    labels: list[str] = []
    for side in sides:
        nodes_of_side, labels_of_side = (
            (infix.read(side), []) if language.notation == "infix" else notations.read(side, language)
        )
        nodes += nodes_of_side
        labels += labels_of_side if language.notation == "labelled" else []
    label_of_word = {label: label_of(label, language) for label in set(labels)}  # a tree has few different ones: 5 us less
    has_labels = any(label is not None for label in label_of_word.values())
    if has_labels and right is not None:
        raise DataError(f"The trees of a pair have no labels at their nodes. Write {UNKNOWN!r} for each.")
    tree = Expression.from_nodes(nodes, language).recognised()
    return tree, tuple(label_of_word[label] for label in labels) if has_labels else ()
