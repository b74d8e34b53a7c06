"""How long a training step must take at the least: its products at the machine's rate of multiplication, then its states at the
rate of memory, for one core does the one after the other; beside what it takes.

    python -m benchmarks.roofline [--cells tree_smu] [--batches 32 1024] [--no-shared] [--engine levels/compiled] [--json]

Products: rows x in x out, two operations each, ahead once and back twice. Memory: what every piece of a step reads and writes,
each number once, ahead and back, products included; Adam on all parameters. Both ceilings are measured first, on shapes like
those of the step.
"""

import time
from dataclasses import dataclass

import torch
import tyro

from benchmarks.common import Row, make_batches, make_model, show, start
from benchmarks.steps import Settings as StepSettings
from benchmarks.steps import measure as measure_steps
from dgl_treestack.cells import Cell
from dgl_treestack.propagate.levels.pieces import Form, Split
from dgl_treestack.propagate.levels.plan import Plan

BYTES = 4  # float32


@dataclass
class Settings:
    """cells: models of `treestack cells`. shared: equal subtrees are computed once."""

    cells: tuple[str, ...] = ("tree_smu",)
    batches: tuple[int, ...] = (1, 32, 256, 1024)
    hidden: int = 50
    shared: bool = True
    engine: str = "levels/compiled"
    json: bool = False


def multiplication_rate() -> float:
    """Operations a second of (512, 100) by (100, 350)."""
    a, b, out = torch.rand(512, 100), torch.rand(100, 350), torch.empty(512, 350)
    return 2 * 512 * 100 * 350 / _fastest(lambda: torch.mm(a, b, out=out), 200)


def memory_rate() -> float:
    """Bytes a second, read and written, of copying 64 MB."""
    a, b = torch.rand(16 * 2**20), torch.empty(16 * 2**20)
    return 2 * a.numel() * BYTES / _fastest(lambda: b.copy_(a), 5)


def _fastest(run: "object", calls: int) -> float:
    found = []
    for _ in range(7):
        begin = time.process_time()
        for _ in range(calls):
            run()  # type: ignore[operator]
        found.append((time.process_time() - begin) / calls)
    return min(found)


def demands(cell: Cell, plan: Plan) -> tuple[float, float]:
    """Operations and bytes of a training step."""
    operations = moved = 0.0
    splits = {arity: Split(cell, Form(arity, False, ())) for arity in {chunk.arity for chunk in plan.chunks}}
    state = sum(torch.Size(shape).numel() for shape in cell.fields.values())
    for chunk in plan.chunks:
        rows, split = chunk.stop - chunk.start, splits[chunk.arity]
        x = [torch.Size(unit.tail).numel() for unit in split.units]
        y = [torch.Size(unit.y_shape).numel() for unit in split.units]
        operations += 6 * rows * sum(a * unit.y_shape[-1] for a, unit in zip(x, split.units, strict=True))
        numbers = 2 * sum(x) + 2 * sum(y) + 2 * chunk.arity * state + state  # ahead: children, x, y, state
        moved += BYTES * rows * (numbers + sum(x) + 2 * sum(y) + 2 * chunk.arity * state + 2 * state)  # back
    parameters = sum(parameter.numel() for parameter in cell.parameters())
    return operations, moved + 7 * BYTES * parameters


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    multiplications, memory = multiplication_rate(), memory_rate()
    rows: list[Row] = []
    for name in settings.cells:
        for size in settings.batches:
            model = make_model(name, settings.hidden)
            batches = make_batches(model, size, shared=settings.shared)
            plans = [batch.plans(model.signature).get(shared=True, device=torch.device("cpu")) for batch in batches]
            found = [demands(model.cell, plan) for plan in plans]
            operations, moved = (sum(column) / len(found) for column in zip(*found, strict=True))
            steps = StepSettings((name,), (settings.engine,), (size,), settings.hidden, shared=settings.shared)
            (row,) = measure_steps(steps, training=True)
            products, bytes_ = 1e3 * operations / multiplications, 1e3 * moved / memory
            bound = products + bytes_
            rows.append({**row, "products_ms": products, "memory_ms": bytes_, "roofline_ms": bound, "over": row["ms"] / bound})
    if not settings.json:
        print(f"{multiplications / 1e9:.0f} GFLOP/s, {memory / 1e9:.1f} GB/s")
    show(rows, settings.json)


if __name__ == "__main__":
    main()
