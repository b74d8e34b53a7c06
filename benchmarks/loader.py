"""What a batch costs from DGL's loader beside the package's own loop, and what reading a graph costs beside making it.

CPU time of one thread in milliseconds per batch, medians of batches measured in turn; see README.md.

python -m benchmarks.loader [--batches 32 256] [--cell tree_smu] [--json]
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import tyro
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.common import Row, in_turn, make_model, read_equations, show, start
from dgl_treestack import GraphDataLoader, TreeDataset, dgl
from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.expression.operators import MATH
from dgl_treestack.propagate.levels.plan import make_plan


@dataclass(frozen=True)
class Settings:
    """batches: equations per batch. steps: batches per measurement. rounds: how often all ways are measured in turn."""

    batches: tuple[int, ...] = (32, 256)
    cell: str = "tree_smu"
    hidden: int = 50
    engine: str = "levels"
    steps: int = 8
    rounds: int = 5
    json: bool = False


def measure(settings: Settings) -> list[Row]:
    """A row per size of a batch."""
    return [_row(settings, size) for size in settings.batches]


def _row(settings: Settings, size: int) -> Row:
    examples = read_equations(size * settings.steps)
    model = make_model(settings.cell, settings.hidden)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    prepared, trees = model.prepare(examples), TreeDataset(examples)
    order = np.arange(len(examples))

    def step(batch: object, target: torch.Tensor) -> None:
        loss = binary_cross_entropy_with_logits(model(batch, settings.engine), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def own_loop(learn: bool) -> None:
        for batch in prepared.in_order(order, size):
            if learn:
                step(batch, batch.targets.float())

    def loader(learn: bool, collate: Callable | None) -> None:
        for batch, target in GraphDataLoader(trees, batch_size=size, collate_fn=collate):
            if learn:
                step(batch, target)

    one = next(iter(GraphDataLoader(trees, batch_size=size, collate_fn=trees.collate)))[0]
    parts = dgl.unbatch(one)
    ends = [part.edges(order="eid") for part in parts]
    ways = {
        "own loop, step": lambda: own_loop(True),
        "loader, step": lambda: loader(True, trees.collate),
        "loader, DGL's collator, step": lambda: loader(True, None),
        "own loop, batch": lambda: own_loop(False),
        "loader, batch": lambda: loader(False, trees.collate),
        "loader, DGL's collator, batch": lambda: loader(False, None),
        "build from a forest": lambda: [graph.build(prepared.forest, order[:size]) for _ in range(settings.steps)],
        "build tree by tree, dgl.batch": lambda: [_by_hand(parts, ends) for _ in range(settings.steps)],
        "read and plan": lambda: [_plan(one) for _ in range(settings.steps)],
    }
    seconds = in_turn({name: partial(_call, way) for name, way in ways.items()}, dict.fromkeys(ways, 1), settings.rounds)
    return {"equations": size, "nodes": one.num_nodes()} | {name: 1e3 * own / settings.steps for name, own in seconds.items()}


def _call(way: Callable[[], object], call: int) -> None:
    way()


def _by_hand(parts: list[dgl.DGLGraph], ends: list[tuple[torch.Tensor, torch.Tensor]]) -> dgl.DGLGraph:
    """As somebody without this library makes a batch: a graph per tree, features, `dgl.batch`."""
    made = []
    for part, edges in zip(parts, ends, strict=True):
        one = dgl.graph(edges, num_nodes=part.num_nodes())
        for name in ("op", "token", "number"):
            one.ndata[name] = part.ndata[name]
        one.edata["slot"] = part.edata["slot"]
        made.append(one)
    return dgl.batch(made)


def _plan(batch: dgl.DGLGraph) -> object:
    return make_plan(columns(batch, MATH), MATH, shared=True, device=torch.device("cpu"))


if __name__ == "__main__":
    chosen = tyro.cli(Settings, description=__doc__)
    start()
    show(measure(chosen), chosen.json)
