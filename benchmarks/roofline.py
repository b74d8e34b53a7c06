"""The time of a training step, and its lower bound: matrix products at the machine's rate of multiplication, plus memory
traffic at its bandwidth, since one core does one after the other.

    python -m benchmarks.roofline [--cells tree_smu] [--batches 32 1024] [--no-shared] [--engine levels/compiled] [--json]

Products: rows x in x out, two operations each, forward once and backward twice. Memory: what a step reads and writes, each
element once, forward and backward, products included; Adam on all parameters. Both rates are measured in turn with the step,
and all three are medians, so that all see the same load of the machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro

from benchmarks.common import Row, in_turn, make_batches, make_model, peak_mb, show, start
from benchmarks.steps import training_step
from dgl_treestack.cells import Cell
from dgl_treestack.propagate.compiled.library import native
from dgl_treestack.propagate.compiled.traced import Form, TracedStep
from dgl_treestack.propagate.levels.plan import Plan

BYTES = 4  # float32
SHAPE = (512, 100, 350)  # rows, in and out of the timed product
COPIED = 16 * 2**20  # elements


@dataclass
class Settings:
    """cells: models of `treestack cells`. shared: equal subtrees are computed once."""

    cells: tuple[str, ...] = ("tree_smu",)
    batches: tuple[int, ...] = (1, 32, 256, 1024)
    hidden: int = 50
    shared: bool = True
    engine: str = "levels/compiled"
    rounds: int = 9
    json: bool = False


def multiplication() -> Callable[[int], object]:
    """(512, 100) by (100, 350)."""
    n, inputs, outputs = SHAPE
    a, b, out = torch.rand(n, inputs), torch.rand(inputs, outputs), torch.empty(n, outputs)
    return lambda _: torch.mm(a, b, out=out)


def copying() -> Callable[[int], object]:
    """64 MB, read and written."""
    a, b = torch.rand(COPIED), torch.empty(COPIED)
    return lambda _: b.copy_(a)


def demands(cell: Cell, plan: Plan) -> tuple[float, float]:
    """Operations and bytes of a training step."""
    native()
    operations = moved = 0.0
    arities = {frontier.arity for frontier in plan.frontiers}
    steps = {arity: TracedStep(cell, Form(arity, False, ()), torch.float32, torch.device("cpu")) for arity in arities}
    state = sum(torch.Size(shape).numel() for shape in cell.fields.values())
    for frontier in plan.frontiers:
        rows, step = frontier.stop - frontier.start, steps[frontier.arity]
        x = y = products = 0
        for product, shape in zip(step.products, step.y_shapes, strict=True):
            inputs = cell.products[product].inputs
            repeats, width = torch.Size(shape[:-1]).numel(), inputs[0] + inputs[1] * frontier.arity
            x, y, products = x + repeats * width, y + repeats * shape[-1], products + repeats * width * shape[-1]
        operations += 6 * rows * products
        forward = 2 * x + 2 * y + 2 * frontier.arity * state + state  # children, x, y, state
        moved += BYTES * rows * (forward + x + 2 * y + 2 * frontier.arity * state + 2 * state)
    parameters = sum(parameter.numel() for parameter in cell.parameters())
    return operations, moved + 7 * BYTES * parameters


def measure(settings: Settings, name: str, size: int) -> Row:
    model = make_model(name, settings.hidden)
    batches = make_batches(model, size, shared=settings.shared)
    plans = [batch.plans.get(batch.trees, shared=True, device=torch.device("cpu")) for batch in batches]
    costs = [demands(model.cell, plan) for plan in plans]
    operations, moved = (sum(column) / len(costs) for column in zip(*costs, strict=True))
    ways = {"product": multiplication(), "copy": copying(), "step": training_step(model, settings.engine, batches)}
    seconds = in_turn(ways, {"product": 100, "copy": 3, "step": max(1, 600 // size)}, settings.rounds)
    rate, speed = 2 * math.prod(SHAPE) / seconds["product"], 2 * COPIED * BYTES / seconds["copy"]
    products, memory = 1e3 * operations / rate, 1e3 * moved / speed
    return {
        "cell": name,
        "engine": settings.engine,
        "batch": size,
        "ms": 1e3 * seconds["step"],
        "gflops": rate / 1e9,
        "gb_per_s": speed / 1e9,
        "products_ms": products,
        "memory_ms": memory,
        "over": 1e3 * seconds["step"] / (products + memory),
        "us_per_equation": 1e6 * seconds["step"] / size,
        "peak_mb": round(peak_mb()),
    }


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show([measure(settings, name, size) for name in settings.cells for size in settings.batches], settings.json)


if __name__ == "__main__":
    main()
