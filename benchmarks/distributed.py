"""Throughput of a training run over several processes of one thread each: equations a second, and where a step's time goes.

python -m benchmarks.distributed [--processes 1 2] [--batch 1024] [--steps 40] [--rounds 3]
    [--data data/paper/train.jsonl.gz] [--json]

The last row, `apart`, is the bound of this machine: as many processes that do not communicate, each with its share of the batch
size as a run of its own. What it lacks to the number of processes is lost to smaller batches and to what cores share.

Starts itself by `torchrun`, once per row and round. Wall time: it measures something only where the processors have nothing
else to do.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.common import EQUATIONS, show, start
from dgl_treestack import plain_data
from dgl_treestack.data import formats
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.resources import find_config
from dgl_treestack.runs import configuration
from dgl_treestack.runs.run import Run
from dgl_treestack.training.loop import Training
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.start import prepare
from dgl_treestack.training.trees import TreeObjective

WARM = 5  # untimed steps


@dataclass
class Settings:
    """processes: numbers of processes, measured in turn in every round; the fastest round counts.

    data: equations to train on, repeated if there are too few.
    """

    processes: tuple[int, ...] = (1, 2)
    batch: int = 1024
    steps: int = 40
    rounds: int = 3
    hidden: int = 50
    cell: str = "tree_smu"
    compile: str = "on"
    data: str = str(EQUATIONS)
    json: bool = False
    apart: bool = False
    """Only the row `apart`."""


class Enough(Exception):
    """The steps to measure are done."""


def measure(settings: Settings) -> None:
    """Train for some steps as one of the processes; the first prints its row."""
    start()
    world = World.join("cpu")
    run_world = ALONE if settings.apart else world
    batch = settings.batch // (world.size // run_world.size)
    examples = [example for example in formats.read(Path(settings.data)) if example.label is not None]
    examples = [examples[i % len(examples)] for i in range(settings.batch * (WARM + settings.steps))]
    assignments = [f"model.hidden={settings.hidden}", f"batch_size={batch}", f"compile={settings.compile!r}"]
    assignments += ["data.max_depth=99", "data.test=[]", "checkpoint_steps=1000000"]
    config = plain_data.override(configuration.load(find_config(f"models/{settings.cell}")), assignments)
    data = TreeDataset(examples)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        run.folder.mkdir()
        training = prepare(run, config, 0, quiet=True, data={"train": data, "validation": data}, world=run_world)
        world.sums(0)  # all begin together
        row = {"processes": world.size, "apart": settings.apart, "batch": batch, **_timed(training, settings, batch)}
    if settings.apart:
        (row["equations_per_s"],) = world.sums(row["equations_per_s"])
    if world.is_first:
        print(json.dumps(row))


def _timed(training: Training, settings: Settings, batch: int) -> dict[str, float]:
    """Return equations a second, and milliseconds of a step by part."""
    seconds: dict[str, float] = defaultdict(float)
    marks: list[float] = []

    def clocked(owner: type, name: str, part: str) -> None:
        real = getattr(owner, name)

        def wrapper(*arguments, **options):
            begin = time.perf_counter()
            result = real(*arguments, **options)
            seconds[part] += time.perf_counter() - begin
            return result

        setattr(owner, name, wrapper)

    clocked(World, "sum_gradients", "gradients")
    clocked(RowOptimizer, "step", "optimizer")
    clocked(TreeObjective, "step", "step")
    step = TreeObjective.step

    def counted(*arguments):
        result = step(*arguments)
        marks.append(time.perf_counter())
        if len(marks) == WARM:
            seconds.clear()
        if len(marks) == WARM + settings.steps:
            raise Enough
        return result

    TreeObjective.step = counted
    with contextlib.suppress(Enough):
        training.train()
    whole = marks[-1] - marks[WARM - 1]
    milliseconds = {part: 1e3 * second / settings.steps for part, second in seconds.items()}
    compute = milliseconds["step"] - milliseconds["gradients"] - milliseconds["optimizer"]
    return {
        "equations_per_s": settings.steps * batch / whole,
        "step_ms": 1e3 * whole / settings.steps,
        "batches_ms": 1e3 * whole / settings.steps - milliseconds["step"],
        "forward_backward_ms": compute,
        "gradients_ms": milliseconds["gradients"],
        "optimizer_ms": milliseconds["optimizer"],
    }


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if "RANK" in os.environ:
        measure(settings)
        return
    planned = [] if settings.apart else [(processes, False) for processes in settings.processes]
    planned.append((max(settings.processes), True))
    rows: dict[tuple[int, bool], dict[str, float]] = {}
    for _ in range(settings.rounds):
        for processes, apart in planned:
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
            finished = subprocess.run(
                [sys.executable, *launcher, "-m", "benchmarks.distributed", *sys.argv[1:], *(["--apart"] * apart)],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            row = json.loads(finished.stdout.splitlines()[-1])
            if row["equations_per_s"] > rows.get((processes, apart), {"equations_per_s": 0.0})["equations_per_s"]:
                rows[processes, apart] = row
    first = rows[planned[0]]["equations_per_s"]
    show([{**row, "times": row["equations_per_s"] / first} for row in rows.values()], settings.json)


if __name__ == "__main__":
    main()
