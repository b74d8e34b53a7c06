"""A long life in one process: train, stop, resume, evaluate, report, plot, score, in a loop with changing data and models.

ONEDNN_PRIMITIVE_CACHE_CAPACITY=16 python -m fuzz.life [--minutes 30] [--report FILE]

By default torch keeps up to 1,024 compiled primitives of oneDNN, one per shape. Changing data fill this cache, and its growth
would hide that of anything else.

Prints memory, file descriptors, threads, children and temporary files after the first cycles, half-way and at the end. Native
code is compiled in the first cycles. The exit code is 1 if the process holds more descriptors, threads, children or temporary
files at the end than after the first cycles, or a tenth more memory.
"""

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from dgl_treestack import atomic, plain_data, plots
from dgl_treestack.data import formats
from dgl_treestack.processes import Interrupted
from dgl_treestack.results import report, run_result
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import start

MODELS = ("tree_smu", "tree_lstm", "mi_tree_lstm_stack", "tree_slots", "lstm", "transformer")
FIRST = 2 * len(MODELS)  # cycles, after which everything has been loaded once
MEMORY = 1.1  # times


@dataclass
class Settings:
    """minutes: after which no cycle begins."""

    minutes: float = 30.0
    report: Path | None = None


def cycle(number: int, scratch: Path, examples: list[formats.Example]) -> int:
    """Live once. Returns how often the training was stopped."""
    source, folder = random.Random(number), scratch / "cycle"
    shutil.rmtree(folder, ignore_errors=True)
    for kind in ("train", "validation", "test"):
        formats.write(folder / f"{kind}.jsonl", source.sample(examples, 300))
    name = MODELS[number % len(MODELS)]
    data = {**{kind: [str(folder / f"{kind}.jsonl")] for kind in ("train", "validation", "test")}, "max_depth": 5}
    model = {"name": name, "hidden": 16, "dropout": 0.1}
    native = "off" if name in ("lstm", "transformer") or number % 2 else "on"
    described = {"name": "life", "model": model, "data": data, "schedule": {"epochs": 3}, "compile": native}
    config, stops = plain_data.build(RunConfig, described), 0
    while True:
        stop = threading.Timer(source.uniform(0.05, 1.0), os.kill, (os.getpid(), signal.SIGTERM))
        if stops < 2:
            stop.start()
        try:
            run = start(config, 0, folder / "runs", resume=True, quiet=True)
            break
        except Interrupted:
            stops += 1
        finally:
            stop.cancel()
            stop.join() if stops < 2 and stop.ident else None
    evaluation.evaluate(run, str(folder / "train.jsonl"))
    report.rows_of([run_result.read(run.folder)])
    plots.draw_groups("depth", {"life": [run_result.read(run.folder)]}, folder / "depth")
    Run.open(run.folder).load_model().score(["x = y", "sin(x)**2 + cos(x)**2 = 1"])
    return stops


def measured() -> dict[str, int]:
    """Return what the process holds: memory in MiB, and numbers."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {
        "memory, MiB": int(status["VmRSS"].split()[0]) // 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": int(status["Threads"]),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
        "temporary files": len(list(Path(tempfile.gettempdir()).iterdir())),
    }


def main() -> int:
    settings = tyro.cli(Settings, description=__doc__)
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: None)  # a signal that comes after the training has ended
    examples = [example for example in formats.read_examples(["bundled:quickstart/train"]) if example.equation.depth <= 5]
    rows: dict[int, dict[str, int]] = {}
    end, number, stops = time.monotonic() + 60 * settings.minutes, 0, 0
    half_way = time.monotonic() + 30 * settings.minutes
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end or number <= FIRST:
            stops += cycle(number, Path(folder), examples)
            number += 1
            if number == FIRST or (len(rows) == 1 and time.monotonic() > half_way):
                rows[number] = measured()
        rows[number] = measured()
    first, last = rows[FIRST], rows[number]
    lines = ["| cycles | " + " | ".join(first) + " |", "|---" * (1 + len(first)) + "|"]
    lines += [f"| {count} | " + " | ".join(map(str, row.values())) + " |" for count, row in rows.items()]
    text = "\n".join([*lines, "", f"{number} cycles, {stops} stops, {settings.minutes:g} minutes."])
    print(text)
    if settings.report:
        atomic.write_text(settings.report, text + "\n")
    grown = [name for name in first if last[name] > first[name] * (MEMORY if name.startswith("memory") else 1)]
    if grown:
        print(f"More than after {FIRST} cycles: {', '.join(grown)}.", file=sys.stderr)
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
