"""The table of models as `treestack cells` prints it."""

from typing import Any

from dgl_treestack import cells, encoders
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression.operators import MATH

HIDDEN = 50


def rows() -> list[dict[str, Any]]:
    """Every model name with its source, its parameters at hidden 50 over all operators, and its state size per node."""
    tokens = len(Vocabulary.preset("canonical"))
    found = []
    for name, model in cells.models().items():
        cell = cells.build(name, MATH.inner, tokens, HIDDEN)
        found.append(
            {
                "name": name,
                "paper": model.paper,
                "equations": model.equations,
                "parameters": sum(parameter.numel() for parameter in cell.parameters()),
                "state": sum(_size(shape) for shape in cell.fields.values()),
                "fields": {field: list(shape) for field, shape in cell.fields.items()},
                "adds": model.adds,
            }
        )
    return found + [_encoder_row(name, model, tokens) for name, model in encoders.encoders().items()]


def _encoder_row(name: str, model: encoders.EncoderSpec, tokens: int) -> dict[str, Any]:
    encoder = encoders.build(name, tokens, len(MATH.operators), model.hidden)
    return {
        "name": name,
        "paper": model.paper,
        "equations": model.equations,
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "state": 0,
        "fields": {},
        "adds": model.adds,
    }


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def text(table: list[dict[str, Any]]) -> str:
    """The table in columns."""
    lines = [f"{'model':<32}{'paper':<32}{'equations':<14}{'parameters':>11}{'state':>7}  adds"]
    for row in table:
        lines.append(
            f"{row['name']:<32}{row['paper']:<32}{row['equations']:<14}{row['parameters']:>11,}{row['state']:>7}  {row['adds']}"
        )
    return "\n".join(
        [*lines, f"Parameters and state (numbers per node) at hidden {HIDDEN} (transformers 128), all operators of the papers."]
    )
