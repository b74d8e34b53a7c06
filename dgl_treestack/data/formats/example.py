"""One equation, or another tree, with its label and the metadata that files store."""

from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import DataError, unknown
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Signature


@dataclass(frozen=True)
class Example:
    """One equation, or another tree, with its metadata.

    label: 1 correct, 0 incorrect, None unknown; in a language with classes, the name of one. fold: train, validation or test.
    pair: shared by the two members of a matched pair. family: the root derivation it was grown from. certificate: how the
    label was certified. blank: the node to be predicted (the equation still holds the true subtree there), if any.
    value_class: equivalence class of a candidate. source: `path:line` where it was read, for messages; it is neither written
    to files nor part of equality.
    """

    equation: Expression
    label: int | str | None = None
    id: str = ""
    fold: str = ""
    pair: str = ""
    family: str = ""
    certificate: dict[str, Any] | None = None
    blank: int | None = None
    value_class: str = ""
    source: str = field(default="", compare=False)


def class_label(label: object, language: Signature) -> int | str:
    """The label of an example from text or a number of a file: 0 or 1, or the name of a class. Raises DataError."""
    if language.classes:
        if str(label) not in language.classes or isinstance(label, bool):
            raise DataError(unknown(f"label of the language {language.name!r}:", str(label), language.classes))
        return str(label)
    if str(label) not in ("0", "1"):
        raise DataError(f"'label' is {label}; write 1 for correct, 0 for incorrect, null for unknown.")
    return int(str(label))
