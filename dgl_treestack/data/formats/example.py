"""One equation, or another tree, with its labels and the metadata that files store."""

from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Label


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
