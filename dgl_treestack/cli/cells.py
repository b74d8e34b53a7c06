"""`treestack cells`."""

import math
from typing import Any

from dgl_treestack.cli import Json, print_json

HIDDEN = 50


def cells(json: Json = False) -> None:
    """List every model name with its paper, equations and size."""
    from dgl_treestack import _dgl  # which loads torch
    from dgl_treestack import cells as tree_models
    from dgl_treestack.data.vocabulary import Vocabulary
    from dgl_treestack.expression.operators import MATH
    from dgl_treestack.sequence import encoders

    tokens, table = len(Vocabulary.preset("canonical")), []
    for name, spec in [*tree_models.models().items(), *encoders.encoders().items()]:
        module: tree_models.Cell | encoders.Encoder
        if issubclass(spec.cell, tree_models.Cell):
            module = tree_models.build(name, MATH.inner, tokens, spec.hidden)
            fields = module.fields
        elif spec.cell.by_dgl and _dgl.REASON:
            continue  # a graph network, which cannot be made
        else:
            module, fields = encoders.build(name, tokens, len(MATH.operators), spec.hidden), {}
        row: dict[str, Any] = {"name": name, "paper": spec.paper, "equations": spec.equations}
        row["parameters"] = sum(parameter.numel() for parameter in module.parameters())
        row["state"] = sum(math.prod(shape) for shape in fields.values())
        table.append({**row, "fields": {field: list(shape) for field, shape in fields.items()}, "adds": spec.adds})
    if json:
        print_json(table)
        return
    print(f"{'model':<32}{'paper':<32}{'equations':<14}{'parameters':>11}{'state':>7}  adds")
    for row in table:
        texts = f"{row['name']:<32}{row['paper']:<32}{row['equations']:<14}"
        print(f"{texts}{row['parameters']:>11,}{row['state']:>7}  {row['adds']}")
    print(f"Parameters and state (numbers per node) at hidden {HIDDEN} (transformers 128), all operators of the papers.")
