"""The table of models as `treestack cells` prints it."""

import math
from typing import Any

from dgl_treestack import cells
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression.operators import MATH
from dgl_treestack.sequence import encoders

HIDDEN = 50


def rows() -> list[dict[str, Any]]:
    """Return every model name with its source, its parameters over all operators, and its state size per node.

    Sizes are at the width that a model's `CellSpec` names.
    """
    tokens, table = len(Vocabulary.preset("canonical")), []
    for name, spec in [*cells.models().items(), *encoders.encoders().items()]:
        module: cells.Cell | encoders.Encoder
        if issubclass(spec.cell, cells.Cell):
            module = cells.build(name, MATH.inner, tokens, spec.hidden)
            fields = module.fields
        else:
            module, fields = encoders.build(name, tokens, len(MATH.operators), spec.hidden), {}
        table.append(
            {
                "name": name,
                "paper": spec.paper,
                "equations": spec.equations,
                "parameters": sum(parameter.numel() for parameter in module.parameters()),
                "state": sum(math.prod(shape) for shape in fields.values()),
                "fields": {field: list(shape) for field, shape in fields.items()},
                "adds": spec.adds,
            }
        )
    return table


def text(table: list[dict[str, Any]]) -> str:
    """Return the table in columns."""
    lines = [f"{'model':<32}{'paper':<32}{'equations':<14}{'parameters':>11}{'state':>7}  adds"]
    for row in table:
        lines.append(
            f"{row['name']:<32}{row['paper']:<32}{row['equations']:<14}{row['parameters']:>11,}{row['state']:>7}  {row['adds']}"
        )
    return "\n".join(
        [*lines, f"Parameters and state (numbers per node) at hidden {HIDDEN} (transformers 128), all operators of the papers."]
    )
