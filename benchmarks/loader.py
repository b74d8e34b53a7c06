"""The cost of a batch from DGL's loader and from the package's loop; the cost of reading a graph and of building it.

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
    """batches: equations per batch. steps: batches per measurement. rounds: measurements of every function, in turn."""

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

    def package_loop(learn: bool) -> None:
        for batch in prepared.in_order(order, size):
            if learn:
                step(batch, batch.targets.float())

    def loader(learn: bool, collate: Callable | None) -> None:
        for batch, target in GraphDataLoader(trees, batch_size=size, collate_fn=collate):
            if learn:
                step(batch, target)

    graph_batch = next(iter(GraphDataLoader(trees, batch_size=size, collate_fn=trees.collate)))[0]
    parts = dgl.unbatch(graph_batch)
    ends = [part.edges(order="eid") for part in parts]
    ways = {
        "own loop, step": lambda: package_loop(True),
        "loader, step": lambda: loader(True, trees.collate),
        "loader, DGL's collator, step": lambda: loader(True, None),
        "own loop, batch": lambda: package_loop(False),
        "loader, batch": lambda: loader(False, trees.collate),
        "loader, DGL's collator, batch": lambda: loader(False, None),
        "build from a forest": lambda: [graph.build(prepared.forest, order[:size]) for _ in range(settings.steps)],
        "build tree by tree, dgl.batch": lambda: [_by_hand(parts, ends) for _ in range(settings.steps)],
        "read and plan": lambda: [_plan(graph_batch) for _ in range(settings.steps)],
    }
    seconds = in_turn({name: partial(_call, way) for name, way in ways.items()}, dict.fromkeys(ways, 1), settings.rounds)
    milliseconds = {name: 1e3 * total / settings.steps for name, total in seconds.items()}
    return {"equations": size, "nodes": graph_batch.num_nodes()} | milliseconds


def _call(way: Callable[[], object], call: int) -> None:
    way()


def _by_hand(parts: list[dgl.DGLGraph], ends: list[tuple[torch.Tensor, torch.Tensor]]) -> dgl.DGLGraph:
    """A batch built without this library: a graph per tree, features, `dgl.batch`."""
    trees = []
    for part, edges in zip(parts, ends, strict=True):
        tree = dgl.graph(edges, num_nodes=part.num_nodes())
        for name in ("op", "token", "number"):
            tree.ndata[name] = part.ndata[name]
        tree.edata["slot"] = part.edata["slot"]
        trees.append(tree)
    return dgl.batch(trees)


def _plan(batch: dgl.DGLGraph) -> object:
    return make_plan(columns(batch, MATH), MATH, shared=True, device=torch.device("cpu"))


if __name__ == "__main__":
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show(measure(settings), settings.json)
