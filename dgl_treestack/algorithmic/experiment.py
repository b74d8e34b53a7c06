"""One model on one task: train restarts, test, round, take away unused stacks, test again, and keep everything in a folder.

records.jsonl       one row per restart, way of testing and size
trace.jsonl         of the chosen Stack RNN after rounding: what it does in a sequence
nets.safetensors    the weights of all restarts, after training and, where there is one, after rounding and pruning
summary.json        the recipe, entropies, stacks that are left, times
DONE                written last
"""

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dgl_treestack import atomic
from dgl_treestack.algorithmic import testing, training
from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.learner import CLIP, WINDOW, Net
from dgl_treestack.algorithmic.models import NetModel
from dgl_treestack.algorithmic.training import Recipe, entropy, new_net, train
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.runs import weights
from dgl_treestack.sequence import ActingCell, StackRNN

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extent:
    """How much is done: restarts, the share of the recipes' updates, sizes that are tested, far sizes, sequences per size
    (`repeats`, from empty memories, where they differ), in streams and at far sizes (`streamed`)."""

    restarts: int = 32
    share: float = 1.0
    largest: int = 60
    far: tuple[int, ...] = (100, 200, 300, 400, 500)
    repeats: int = 20
    streamed: int = 3


def run(task: Task, model: NetModel, extent: Extent, seed: int, folder: Path) -> list[Record]:
    """Records of all restarts, from the folder if it is done."""
    done = folder / "DONE"
    if done.exists():
        return records.read(folder / "records.jsonl")
    extent = replace(extent, restarts=min(extent.restarts, model.most))
    started = time.process_time()
    net, least, size = _trained(task, model, extent, seed)
    summary: dict[str, Any] = {"task": task.name, "model": model.label, "size": dict(size), "seed": seed}
    summary |= {"restarts": extent.restarts, "recipe": _described(model.recipe, extent), "entropy": least.tolist()}
    rows = list(_tested(task, net, extent, seed, rounding=False))
    tensors = {f"trained.{name}": value.clone() for name, value in net.state_dict().items()}
    if model.rounding is not None:
        train(task, net, _shortened(model.rounding, extent), seed)
        least = entropy(task, net, seed)
        summary["rounding"] = _described(model.rounding, extent)
        if isinstance(net.cell, StackRNN):
            summary["stacks left"] = testing.prune(task, net, seed).tolist()
            least = entropy(task, net, seed)
            lines = testing.trace(task, net, int(least.argmin()), seed)
            atomic.write_text(folder / "trace.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        summary["entropy after rounding"] = least.tolist()
        rows += _tested(task, net, extent, seed, rounding=True)
        tensors |= {f"rounded.{name}": value for name, value in net.state_dict().items()}
    summary["seconds of one core"] = round(time.process_time() - started, 1)
    records.write(folder / "records.jsonl", rows)
    weights.write(folder / "nets.safetensors", tensors, {"task": task.name, "model": model.label})
    atomic.write_text(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    atomic.write_text(done, "")
    return rows


def _trained(task: Task, model: NetModel, extent: Extent, seed: int) -> tuple[Net, Tensor, Mapping[str, int]]:
    """The nets of the size whose best restart has the least entropy, their entropies, and that size."""
    best: tuple[Net, Tensor, Mapping[str, int]] | None = None
    for size in model.sizes:
        described = ", ".join(f"{name} {value}" for name, value in size.items())
        logger.info("%s, %s, %s: %d restarts", task.title, model.label, described, extent.restarts)
        net = new_net(Net(model.build(len(task.symbols), restarts=extent.restarts, **size)), seed)
        train(task, net, _shortened(model.recipe, extent), seed, quiet=False)
        least = entropy(task, net, seed)
        if best is None or least.min() < best[1].min():
            best = net, least, size
    assert best is not None  # every model has a size
    return best


def fingerprint(model: NetModel, extent: Extent) -> str:
    """Of everything but task and seed that a run depends on."""
    rounding = dataclasses.asdict(model.rounding) if model.rounding else None
    build = getattr(model.build, "func", model.build).__name__, getattr(model.build, "keywords", {})
    constants = WINDOW, CLIP, list(training.VALIDATED), testing.TOLERANCE
    recipes = [dataclasses.asdict(model.recipe), rounding]
    described = [model.label, model.sizes, model.most, build, constants, recipes, dataclasses.asdict(extent)]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]


def _shortened(recipe: Recipe, extent: Extent) -> Recipe:
    return replace(recipe, updates=max(1, round(recipe.updates * extent.share)))


def _described(recipe: Recipe, extent: Extent) -> dict[str, Any]:
    return dataclasses.asdict(_shortened(recipe, extent))


def _tested(task: Task, net: Net, extent: Extent, seed: int, *, rounding: bool) -> Iterator[Record]:
    """A record per restart, way of testing and size, far sizes among them: the share of sequences that are right. Entropies
    are those of the actions that are tested, soft or hard."""
    sizes = range(max(task.smallest, 2), extent.largest + 1)
    for hard in (False, True) if isinstance(net.cell, ActingCell) else (False,):
        with testing.tested_as(net, hard=hard, capacity=_capacity(task, extent.largest)):
            least = entropy(task, net, seed)
            for protocol in testing.PROTOCOLS:
                repeats = extent.streamed if protocol == "stream" else extent.repeats if task.varied else 1
                found = testing.right(task, net, sizes, protocol, seed, repeats=repeats)
                yield from _rows(task, found, sizes, least, protocol, hard=hard, rounding=rounding)
        for far in extent.far:
            with testing.tested_as(net, hard=hard, capacity=_capacity(task, far)):
                repeats = extent.streamed if task.varied else 1
                found = testing.right(task, net, [far], "emptied", seed, repeats=repeats)
                yield from _rows(task, found, [far], least, "emptied", hard=hard, rounding=rounding)


def _capacity(task: Task, size: int) -> int:
    """Rows for sequences of a size: as many as a sequence has symbols, and what a stream may leave behind."""
    return (len(task.symbols) + 1) * size


def _rows(
    task: Task, found: Tensor, sizes: Sequence[int], least: Tensor, protocol: str, *, hard: bool, rounding: bool
) -> Iterator[Record]:
    for restart, shares in enumerate(found.tolist()):
        for size, share in zip(sizes, shares, strict=True):
            yield {
                "schema": records.SCHEMA,
                "id": f"{restart}-{protocol}-{'hard' if hard else 'soft'}-{'rounded' if rounding else 'trained'}-{size}",
                "split": "test",
                "depth": size,
                "label": None,
                "score": share,
                "correct": share == 1.0,
                "task": task.name,
                "restart": restart,
                "protocol": protocol,
                "hard": hard,
                "rounded": rounding,
                "entropy": least[restart].item(),
            }
