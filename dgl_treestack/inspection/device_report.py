"""What a device is worth: every model on it against the CPU, what a step dispatches, and how long it takes.

On a machine with a GPU the report is one to send back; on the CPU it runs too.
"""

import math
import os
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from dgl_treestack import _torch, cells, encoders
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.generators import torch_generator
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import Options

DATA, EPOCH = "bundled:quickstart/train", 27_108  # equations of an epoch of the set `paper`
COMPARED, HIDDEN = 24, 64  # equations and width with which models are compared
TOLERANCE = 1e-5  # of outputs and gradients, relative to the largest
SENSITIVE = 10  # in float32: or so many times the difference of the CPU in float32
TIMED = ("tree_rnn", "tree_lstm", "tree_smu", "tree_slots")
SIZES = (32, 256, 1024)  # of batches
WARM, STEPS = 3, 10  # steps before the clock starts, and those that it measures


def report(device: str, *, progress: bool = False, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Return `models`, a row per model, and `steps`, a row per timed model and size of a batch. progress: draw a bar."""
    examples = formats.read_examples([DATA])
    random.Random(0).shuffle(examples)
    names = sorted({**cells.models(), **encoders.encoders()})
    timed = [(name, size) for name in TIMED for size in sizes]
    with tqdm(total=len(names) + len(timed), desc=device, disable=not progress) as bar:

        def each(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
            done = []
            for row in rows:
                done.append(row)
                bar.update()
            return done

        models = each(_compare(name, examples[:COMPARED], device) for name in names)
        return {"models": models, "steps": each(_guarded(name, size, examples, device) for name, size in timed)}


def _compare(name: str, examples: list[Example], device: str) -> dict[str, Any]:
    """Return how far output and gradient of a model are from those on the CPU in float64, relative to their largest element.

    float64, float32: on the device. cpu: on the CPU in float32, which shows how sensitive the model is. waits: see `_waits`.
    fault: the error of a model that cannot be computed there.
    """
    waits = []

    def computed(place: str, dtype: torch.dtype) -> list[Tensor]:
        model = Model.build(name, HIDDEN, seed=0).to(dtype).to(place)
        batch = model.prepare(examples).batch(np.arange(len(examples)), place)
        with _waits(place) as waits_of_step:
            output = model(batch)
            model.losses(output, batch).mean().backward()
        waits.extend(waits_of_step)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        return [values.cpu().double() for values in (output.detach(), torch.cat([g.flatten() for g in gradients]))]

    places = {"float64": (device, torch.float64), "float32": (device, torch.float32), "cpu": ("cpu", torch.float32)}
    try:
        exact = computed("cpu", torch.float64)
        row = {}
        for column, place in places.items():
            values = zip(computed(*place), exact, strict=True)
            row[column] = float(
                torch.stack([(ours - wanted).abs().max() / wanted.abs().max() for ours, wanted in values]).max()
            )
    except Exception as error:  # the report has to name it, whatever it is
        return {"model": name, "ok": False, "fault": f"{type(error).__name__}: {error}"[:300]}
    if not all(map(math.isfinite, row.values())):
        return {"model": name, "ok": False, "fault": f"not finite: {row}"}
    is_same = row["float64"] <= TOLERANCE and row["float32"] <= max(TOLERANCE, SENSITIVE * row["cpu"])
    return {"model": name, "ok": is_same, **row, "waits": sorted(set(waits))}


def _guarded(name: str, size: int, examples: list[Example], device: str) -> dict[str, Any]:
    """Return what `_measure` does, or its error as the fault of a row."""
    try:
        return _measure(name, size, examples, device)
    except Exception as error:  # such as too little memory; the rest of the report still counts
        return {"model": name, "batch": size, "fault": f"{type(error).__name__}: {error}"[:300]}


def _measure(name: str, size: int, examples: list[Example], device: str) -> dict[str, Any]:
    """Return what a training step dispatches and how long it takes, the optimizer not included.

    operations: those that a GPU is given, without views; on the CPU, which computes in other ones, they are counted in a step
    of their own. waits: see `_waits`. milliseconds: of a step. epoch: seconds for `EPOCH` equations.
    """
    model = Model.build(name, HIDDEN, seed=0).to(device)
    dataset = model.prepare(examples[: 4 * size])
    generator = np.random.default_rng(0)
    batches = [dataset.batch(generator.permutation(len(dataset))[:size], device) for _ in range(WARM + STEPS + 2)]

    def step(batch: Batch) -> None:
        model.zero_grad(set_to_none=True)
        output = model(batch, generator=torch_generator(0, "device report"))
        model.losses(output, batch).mean().backward()

    for batch in batches[:WARM]:
        step(batch)
    _finish(device)
    started = time.perf_counter()
    for batch in batches[WARM : WARM + STEPS]:
        step(batch)
    _finish(device)
    seconds = (time.perf_counter() - started) / STEPS
    batches[-2].plans.options = Options(group=True)
    operations = _torch.count_operations(lambda: step(batches[-2]))
    with _waits(device) as waits:
        step(batches[-1])
    return {
        "model": name,
        "batch": size,
        "operations": operations,
        "waits": waits,
        "milliseconds": 1000 * seconds,
        "epoch": seconds * EPOCH / size,
    }


def _finish(device: str) -> None:
    """Wait until a device has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@contextmanager
def _waits(device: str) -> Iterator[list[str]]:
    """Yield a list that has, after the block, the lines of code in it that make the CPU wait for a GPU, as file:line."""
    lines: list[str] = []
    if not device.startswith("cuda"):
        yield lines
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield lines
    finally:
        torch.cuda.set_sync_debug_mode("default")
    package = str(Path(__file__).parent.parent) + os.sep
    lines += [f"{w.filename.removeprefix(package)}:{w.lineno}" for w in caught if "synchronizing" in str(w.message)]
