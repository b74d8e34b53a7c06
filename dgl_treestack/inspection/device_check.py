"""Does a device compute what the CPU does, and how fast: of `treestack doctor --device`. `tools/device_report.py` says more."""

import math
import os
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from dgl_treestack import _dgl, cells
from dgl_treestack._torch import torch_generator
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.model.dataset import Batch
from dgl_treestack.model.model import Model
from dgl_treestack.sequence import encoders

DATA, EPOCH = "bundled:quickstart/train", 27_108  # equations of an epoch of the set `paper`
COMPARED, HIDDEN = 24, 64  # equations and width with which models are compared
TOLERANCE = 1e-5  # of outputs and gradients, relative to the largest
# In float64 all 45 models differ by at most 1.4e-14 on an H100; in float32 second-order cells and the multiplicative
# Tree-RNN differ by up to 1.5e-5, most others by less than 1e-6.
SENSITIVE = 10  # in float32: or so many times the difference of the CPU in float32
TIMED = ("tree_rnn", "tree_lstm", "tree_smu", "tree_slots")
SIZES = (32, 256, 1024)  # of batches
WARM, STEPS = 3, 10  # steps before the clock starts, and those that it measures


def examples() -> list[Example]:
    """Return the equations of the check, in random order."""
    shuffled = formats.read_examples([DATA])
    random.Random(0).shuffle(shuffled)
    return shuffled


def check(
    device: str, names: Sequence[str] = (), sizes: Sequence[int] = SIZES, *, progress: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Return `models`, a row per model (see `compare`), and `steps`, a row per timed model and size of a batch (see `measure`).

    A row of a model that cannot be computed has the error as `fault`. names: of models, by default all, without graph networks
    on a device that DGL lacks. progress: draw a bar.
    """
    by_dgl = not _dgl.REASON and (device == "cpu" or _dgl.has_cuda())
    readers = [name for name, spec in encoders.encoders().items() if by_dgl or not spec.cell.by_dgl]
    equations, names = examples(), names or sorted([*cells.models(), *readers])
    about: list[dict[str, Any]] = [{"model": name, "ok": False} for name in names]
    answers = [partial(compare, name, equations[:COMPARED], device) for name in names]
    for name in TIMED:
        about += [{"model": name, "batch": size} for size in sizes]
        answers += [partial(measure, name, size, equations, device) for size in sizes]
    for row, answer in zip(tqdm(about, desc=device, disable=not progress), answers, strict=True):
        try:
            row |= answer()
        except Exception as error:  # such as too little memory; the other rows still count
            row["fault"] = f"{type(error).__name__}: {error}"[:300]
    return {"models": about[: len(names)], "steps": about[len(names) :]}


def compare(name: str, equations: list[Example], device: str) -> dict[str, Any]:
    """Return how far output and gradient of a model are from those on the CPU in float64, relative to their largest element.

    float64, float32: on the device. cpu: on the CPU in float32, which shows how sensitive the model is. ok: near enough.
    """

    def computed(place: str, dtype: torch.dtype) -> list[Tensor]:
        model, batch = prepare(name, equations, place, dtype)
        output = step(model, batch)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        return [values.cpu().double() for values in (output, torch.cat([gradient.flatten() for gradient in gradients]))]

    exact, row = computed("cpu", torch.float64), {}
    places = {"float64": (device, torch.float64), "float32": (device, torch.float32), "cpu": ("cpu", torch.float32)}
    for column, place in places.items():
        pairs = zip(computed(*place), exact, strict=True)
        row[column] = float(torch.stack([(ours - wanted).abs().max() / wanted.abs().max() for ours, wanted in pairs]).max())
    if not all(map(math.isfinite, row.values())):
        return {"fault": f"not finite: {row}"}
    is_same = row["float64"] <= TOLERANCE and row["float32"] <= max(TOLERANCE, SENSITIVE * row["cpu"])
    return {"ok": is_same, **row}


def measure(name: str, size: int, equations: list[Example], device: str) -> dict[str, Any]:
    """Return how long a training step takes, the optimizer not included.

    waits: see `waits`. milliseconds: of a step. epoch: seconds for `EPOCH` equations.
    """
    model = Model.build(name, HIDDEN, seed=0).to(device)
    dataset = model.prepare(equations[: 4 * size])
    generator = np.random.default_rng(0)
    batches = [dataset.batch(generator.permutation(len(dataset))[:size], device) for _ in range(WARM + STEPS + 1)]
    # Both rounds are clocked, and the time of the second is kept.
    for timed in (batches[:WARM], batches[WARM:-1]):
        started = time.perf_counter()
        for batch in timed:
            step(model, batch)
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
    seconds = (time.perf_counter() - started) / STEPS
    with waits(device) as lines:
        step(model, batches[-1])
    return {"waits": lines, "milliseconds": 1000 * seconds, "epoch": seconds * EPOCH / size}


def prepare(name: str, equations: list[Example], place: str, dtype: torch.dtype = torch.float32) -> tuple[Model, Batch]:
    """Return a model, with the same weights each time, and a batch of equations for it."""
    model = Model.build(name, HIDDEN, seed=0).to(dtype).to(place)
    return model, model.prepare(equations).batch(np.arange(len(equations)), place)


def step(model: Model, batch: Batch) -> Tensor:
    """Do a training step without the optimizer. Returns the output."""
    model.zero_grad(set_to_none=True)
    output = model(batch, generator=torch_generator(0, "device check"))
    model.losses(output, batch).mean().backward()
    return output.detach()


@contextmanager
def waits(device: str) -> Iterator[list[str]]:
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
