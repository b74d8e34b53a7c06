"""A training step and a forward pass without gradients, for every engine and peer, on the same batches.

A training step is forward, loss, backward and fused Adam. Graphs and plans are built before, as a loader would (`epoch`
includes them in its time). Engines and peers are measured in turn, so that all see the same load of the machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common import Row, in_turn, make_batches, make_model, peak_mb
from benchmarks.peers import PEERS
from dgl_treestack.cells import models
from dgl_treestack.expression.operators import MATH
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import ENGINES

Forward = Callable[[int], Tensor]  # index of a batch -> outputs (B,)


@dataclass
class Settings:
    """cells: models of `treestack cells`, `all`, or `child_sum`: a Child-Sum Tree-LSTM with shared weights and inputs, compared
    with the peers. engines: ours. shared: equal subtrees are computed once, except with dropout. data: files of labelled
    equations in place of the benchmark's."""

    cells: tuple[str, ...] = ("tree_smu",)
    engines: tuple[str, ...] = ENGINES
    batches: tuple[int, ...] = (1, 32, 256, 1024)
    hidden: int = 50
    dropout: float = 0.0
    shared: bool = True
    data: tuple[Path, ...] = ()
    rounds: int = 5
    json: bool = False


def measure(settings: Settings, *, training: bool) -> list[Row]:
    """Rows of the benchmark, one per cell, batch size, and engine or peer."""
    names = (
        [name for name in sorted(models()) if not name.endswith("_released")] if settings.cells == ("all",) else settings.cells
    )
    return [row for name in names for size in settings.batches for row in _rows(settings, name, size, training)]


def _rows(settings: Settings, name: str, size: int, training: bool) -> list[Row]:
    peers = name == "child_sum"
    cell, more = ("tree_lstm_child_sum", {"share": "all", "input_size": settings.hidden}) if peers else (name, {})
    ours = [make_model(cell, settings.hidden, dropout=settings.dropout, **more).train(training) for _ in settings.engines]
    batches = make_batches(ours[0], size, shared=settings.shared, data=settings.data)
    ways: dict[str, tuple[nn.Module, Forward]] = {}
    for engine, model in zip(settings.engines, ours, strict=True):
        forward = partial(_with_inputs if peers else _forward, model, engine, batches)
        ways[f"ours, {engine}" if peers else engine] = (model, forward)
    for peer, build in PEERS.items() if peers else ():
        ways[peer] = build(settings.hidden, batches)
    nodes = sum(batch.graph.num_nodes() for batch in batches) / len(batches)
    calls = {way: max(1, min(20, (60 if "topo" in way or "pytorch" in way else 600) // size)) for way in ways}
    function = _step if training else _pass
    seconds = in_turn({way: function(*model, batches) for way, model in ways.items()}, calls, settings.rounds)
    return [_row(name, way, size, nodes, seconds_of_way, max(seconds.values())) for way, seconds_of_way in seconds.items()]


def _row(cell: str, way: str, size: int, nodes: float, seconds: float, slowest: float) -> Row:
    return {
        "cell": cell,
        "engine": way,
        "batch": size,
        "nodes": round(nodes / size, 1),
        "ms": 1e3 * seconds,
        "us_per_equation": 1e6 * seconds / size,
        "times": slowest / seconds,
        "peak_mb": round(peak_mb()),
    }


def _forward(model: Model, engine: str, batches: Sequence[Batch], i: int) -> Tensor:
    generator = torch.Generator().manual_seed(i) if model.training else None
    return model(batches[i % len(batches)], engine, generator=generator)


def _with_inputs(model: Model, engine: str, batches: Sequence[Batch], i: int) -> Tensor:
    """As in the peers: the input of every node is an embedding of its operator."""
    batch = batches[i % len(batches)]
    if not hasattr(model, "of_operators"):
        model.of_operators = nn.Embedding(len(MATH.operators), model.cell.input_size)
    batch.graph.ndata["input"] = model.of_operators(batch.graph.ndata["op"].clamp(min=0))
    return _forward(model, engine, batches, i)


def training_step(model: Model, engine: str, batches: Sequence[Batch]) -> Callable[[int], None]:
    """A function that runs a training step on the batch with an index."""
    return _step(model.train(), partial(_forward, model, engine, batches), batches)


def _step(module: nn.Module, forward: Forward, batches: Sequence[Batch]) -> Callable[[int], None]:
    forward(0)
    adam = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)

    def run(i: int) -> None:
        adam.zero_grad()
        targets = batches[i % len(batches)].targets.float()
        functional.binary_cross_entropy_with_logits(forward(i), targets).backward()
        adam.step()

    return run


def _pass(module: nn.Module, forward: Forward, batches: Sequence[Batch]) -> Callable[[int], None]:
    @torch.no_grad()
    def run(i: int) -> None:
        forward(i)

    return run
