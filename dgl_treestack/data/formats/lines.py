"""Our format: JSON Lines, one equation a line. `data/README.md` has the schema."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgl_treestack.data.formats.example import Example
from dgl_treestack.data.formats.source import fault, read_lines
from dgl_treestack.errors import DataError, ExpressionError, unknown
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH, Signature

MAX_INFIX_DEPTH = 60  # deeper trees are written in prefix form

_VERDICT_OF_LABEL = {1: "holds", 0: "refuted"}
_TYPES: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "label": (int, type(None)),
    "depth": (int,),
    "text": (str,),
    "prefix": (str,),
    "signature": (str,),
    "fold": (str,),
    "pair": (str,),
    "family": (str,),
    "class": (str,),
    "blank": (int,),
    "certificate": (dict,),
}


def read(path: Path, signature: Signature = MATH) -> Iterator[Example]:
    """The examples of a file, one at a time. Raises DataError with file and line."""
    line_of_id: dict[str, int] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            example = from_dict(_decode(line), f"{path}:{number}", signature)
        except (DataError, ExpressionError) as error:
            raise DataError(str(error), path, number) from None
        if example.id in line_of_id:
            message = f"The id {example.id!r} stands in line {line_of_id[example.id]} already; ids are unique."
            raise DataError(message, path, number)
        if example.id:
            line_of_id[example.id] = number
        yield example


def _decode(line: str) -> dict[str, Any]:
    """The JSON object of a line, its keys and the types of its values checked. Raises DataError."""

    def refuse(word: str) -> None:
        raise DataError(f"{word} is not allowed in JSON. Write a finite number.")

    try:
        data = json.loads(line, parse_constant=refuse)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"Not a complete JSON object ({fault(error)}). One line holds one equation.") from None
    if not isinstance(data, dict):
        raise DataError(f"Expected a JSON object, found {type(data).__name__}. One line holds one equation.")
    for key, value in data.items():
        if key not in _TYPES:
            raise DataError(unknown("key", key, _TYPES))
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in _TYPES[key])
            raise DataError(f"{key!r} must be {expected}, found {value!r}.")
    return data


def from_dict(data: dict[str, Any], source: str = "", signature: Signature = MATH) -> Example:
    """The example of one line, from values of the right types. Raises DataError or ExpressionError, without file and line."""
    if ("text" in data) == ("prefix" in data):
        raise DataError("Exactly one of the keys 'text' and 'prefix' gives the equation.")
    if data.get("signature", MATH.name) != signature.name:
        raise DataError(
            f"Its operators are those of {data.get('signature', MATH.name)!r}, not of {signature.name!r}. "
            "Read the file with its own signature: formats.read(path, signature)."
        )
    if "text" in data and signature is not MATH:
        raise DataError(
            f"Infix text, key 'text', is read for {MATH.name!r} alone. Write trees of {signature.name!r} as 'prefix'."
        )
    tree = Expression.parse(data["text"]) if "text" in data else Expression.from_prefix(data["prefix"], signature)
    if tree.names[0] == tree.signature.root:
        tree = Equation(tree.names, tree.texts, tree.arities, tree.signature)
    if data.get("depth", tree.depth) != tree.depth:
        raise DataError(f"'depth' says {data['depth']}, the tree has {tree.depth} (a leaf is 0, '=' counts). Correct it.")
    if not 0 <= data.get("blank", 0) < tree.size:
        raise DataError(f"'blank' is node {data['blank']} of a tree with {tree.size} nodes.")
    label, certificate = data.get("label"), data.get("certificate")
    if label not in (0, 1, None):
        raise DataError(f"'label' is {label}; write 1 for correct, 0 for incorrect, null for unknown.")
    verdict = None if label is None else _VERDICT_OF_LABEL[label]
    if verdict and certificate and certificate.get("verdict", verdict) != verdict:
        raise DataError(f"'label' is {label} but the certificate says {certificate['verdict']!r}. One of them is wrong.")
    return Example(
        equation=tree,
        label=label,
        id=data.get("id", ""),
        fold=data.get("fold", ""),
        pair=data.get("pair", ""),
        family=data.get("family", ""),
        certificate=certificate,
        blank=data.get("blank"),
        value_class=data.get("class", ""),
        source=source,
    )


def to_dict(example: Example) -> dict[str, Any]:
    """One line of our format as plain data; empty fields are left out."""
    tree = example.equation
    is_math = tree.signature.name == MATH.name
    notation = {"text": str(tree)} if is_math and tree.depth <= MAX_INFIX_DEPTH else {"prefix": tree.prefix()}
    line = {
        "id": example.id,
        "label": example.label,
        "depth": tree.depth,
        **notation,
        "signature": "" if is_math else tree.signature.name,
        "fold": example.fold,
        "pair": example.pair,
        "family": example.family,
        "class": example.value_class,
        "blank": example.blank,
        "certificate": example.certificate,
    }
    return {key: value for key, value in line.items() if value not in ("", None) or key == "label"}
