"""Native code against eager steps, for every model: the largest difference of outputs and gradients, relative to the largest
element of each tensor, which counts as at least 1e-3.

    python -m benchmarks.compiled [--cells tree_smu mtree_lstm] [--forms nary] [--precision float64] [--json]

The tests do this for one cell, because every kernel takes seconds to build.
"""

import time
from dataclasses import dataclass
from typing import Literal

import torch
import tyro
from torch import Tensor

from benchmarks.common import VOCABULARY, Row, read_equations, show, start
from dgl_treestack import cells
from dgl_treestack.data import graph
from dgl_treestack.expression.operators import MATH
from dgl_treestack.propagate import draw_noise, propagate


@dataclass
class Settings:
    """cells: of `treestack cells`; none for all."""

    cells: tuple[str, ...] = ()
    forms: tuple[str, ...] = ("nary",)
    precision: Literal["float32", "float64"] = "float64"
    hidden: int = 12
    dropout: float = 0.0
    json: bool = False


def measure(settings: Settings, name: str, form: str) -> Row:
    """One model: outputs and gradients of batches of changing size."""
    cell = cells.build(name, MATH.inner, len(VOCABULARY), settings.hidden, form=form, dropout=settings.dropout)
    cell.reset_parameters(torch.Generator().manual_seed(0))
    cell.to(getattr(torch, settings.precision)).train()
    begin, worst = time.time(), 0.0
    for size in (16, 3, 40, 1):
        batch = graph.from_expressions([example.equation for example in read_equations(size)], VOCABULARY)
        noise = draw_noise(cell, batch, torch.Generator().manual_seed(size))
        results = [_results(cell, batch, engine, noise) for engine in ("levels", "levels/compiled")]
        for key, expected in results[0].items():
            worst = max(worst, float((results[1][key] - expected).abs().max() / expected.abs().max().clamp_min(1e-3)))
    return {"cell": name, "form": form, "precision": settings.precision, "difference": worst, "seconds": time.time() - begin}


def _results(cell: cells.Cell, batch: "graph.DGLGraph", engine: str, noise: dict[str, Tensor]) -> dict[str, Tensor]:
    cell.zero_grad(set_to_none=True)
    propagate(batch, cell, engine=engine, noise=noise)
    sum((batch.ndata[name] * 0.7).sin().sum() for name in cell.fields).backward()  # type: ignore[union-attr]
    gradients = {name: parameter.grad for name, parameter in cell.named_parameters() if parameter.grad is not None}
    return {**gradients, **{name: batch.ndata[name].detach() for name in cell.fields}}


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    rows = []
    for name in settings.cells or sorted(cells.models()):
        for form in settings.forms:
            if not (name == "tree_rnn_second_order_bilinear" and form == "child_sum"):  # refused
                rows.append(measure(settings, name, form))
                show(rows[-1:], as_json=True)
    if not settings.json:
        show(rows, as_json=False)


if __name__ == "__main__":
    main()
