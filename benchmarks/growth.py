"""Growth of time and memory of a training step with the number of nodes, each size in a separate process.

    python -m benchmarks.growth --sizes 64 1024 16384 65536 [--engine levels/compiled] [--json]

Equations of depth 1-7 of the bundled set, repeated, without sharing; then one chain of depth 10,000. The exponent is that of a
power law through all sizes (1 is linear), for time and for the memory of the step, without that of the process before it.
"""

import itertools
import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import tyro
from torch.nn import functional

from benchmarks.common import Row, make_model, peak_mb, show, start
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import Options
from dgl_treestack.resources import find_data


@dataclass
class Settings:
    """sizes: equations of a batch. chain: its depth. only_size: measure this size (0: the chain) and print JSON."""

    sizes: tuple[int, ...] = (64, 256, 1024, 4096, 16384, 65536)
    cell: str = "tree_smu"
    engine: str = "levels"
    hidden: int = 50
    chain: int = 10_000
    only_size: int | None = None
    json: bool = False


def examples(size: int, depth: int = 0) -> list[Example]:
    """`size` bundled equations of depth 1-7, or for 0 one whose left side is a chain of sines of the depth."""
    if size:
        bundled = list(itertools.islice(formats.read(find_data("bundled:quickstart/train")), size))
        return [bundled[i % len(bundled)] for i in range(size)]
    chain = Expression(("sin",) * depth + ("Symbol",), (None,) * depth + ("x",), (1,) * depth + (0,))
    return [Example(Equation.of(chain, Expression.leaf("Symbol", "y")), 1, "chain")]


def measure(settings: Settings, size: int) -> Row:
    """The second training step of a size; the first one allocates the memory."""
    model = make_model(settings.cell, settings.hidden)
    _step(model, model.prepare(examples(16)).batch(np.arange(16)), settings.engine)  # caches and imports
    dataset = model.prepare(examples(size, settings.chain))
    before = peak_mb()
    batch = dataset.batch(np.arange(len(dataset)))
    batch.plans.options = Options(share=False)
    for _ in range(2):
        begin = time.process_time()
        _step(model, batch, settings.engine)
        seconds = time.process_time() - begin
    nodes = batch.graph.num_nodes()
    return {
        "cell": settings.cell,
        "engine": settings.engine,
        "batch": size,
        "nodes": nodes,
        "seconds": seconds,
        "us_per_node": 1e6 * seconds / nodes,
        "us_per_equation": 1e6 * seconds / max(size, 1),
        "peak_mb": round(peak_mb()),
        "own_mb": round(peak_mb() - before),
    }


def _step(model: Model, batch: Batch, engine: str) -> None:
    model.zero_grad()
    targets = batch.targets.float()
    functional.binary_cross_entropy_with_logits(model(batch, engine), targets).backward()


def exponent(rows: list[Row], name: str) -> float:
    """Exponent of the power law name ~ nodes^exponent."""
    points = [(row["nodes"], row[name]) for row in rows if row[name] > 0]
    if len(points) < 2:
        return math.nan
    return float(np.polyfit(*np.log(np.array(points)).T, 1)[0])


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    if settings.only_size is not None:
        print(json.dumps(measure(settings, settings.only_size)))
        return
    rows = []
    for size in (*settings.sizes, 0):
        command = [sys.executable, "-m", "benchmarks.growth", "--only-size", str(size), "--cell", settings.cell]
        command += ["--engine", settings.engine, "--hidden", str(settings.hidden), "--chain", str(settings.chain)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))
    show(rows, settings.json)
    if not settings.json:
        batches = [row for row in rows if row["batch"]]
        large = [row for row in batches if row["own_mb"] >= 50]  # less is hidden by memory that the process had before
        print(f"time ~ nodes^{exponent(batches, 'seconds'):.2f}, memory ~ nodes^{exponent(large, 'own_mb'):.2f}")


if __name__ == "__main__":
    main()
