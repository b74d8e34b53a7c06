"""One model on one task: train restarts, test, round, remove unused stacks, test again, and save everything in a folder.

size-0.safetensors  and so on, until the run is done: the weights of all restarts of a size of the model, after training
records.parquet     one row per restart, test and size
trace.jsonl         of the chosen Stack RNN after rounding: its actions in a sequence
nets.safetensors    the weights of all restarts, after training and, if there is rounding, after rounding and pruning
summary.json        the recipe, entropies, remaining stacks, times
DONE                written last
"""

import dataclasses
import hashlib
import itertools
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from dgl_treestack import atomic
from dgl_treestack.algorithmic import testing, training
from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.learner import CLIP, WINDOW, Net
from dgl_treestack.algorithmic.models import NetModel
from dgl_treestack.algorithmic.training import Recipe, entropy, train
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.generators import torch_generator
from dgl_treestack.runs.environment import describe_environment, origin_of
from dgl_treestack.runs.weights import read_weights, write_weights
from dgl_treestack.sequence import ActingCell, StackRNN

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extent:
    """The scale of an experiment.

    restarts: number of nets. share: fraction of a recipe's updates that are made. largest: the largest of the consecutive
    tested sizes. far: further sizes. repeats: sequences per size, from empty memories, if sequences of a size differ. streamed:
    sequences per size in streams and at far sizes.
    """

    restarts: int = 10
    share: float = 1.0
    largest: int = 60
    far: tuple[int, ...] = (100, 200, 300, 400, 500)
    repeats: int = 20
    streamed: int = 3


def run(task: Task, model: NetModel, extent: Extent, seed: int, folder: Path) -> list[Record]:
    """Return the records of all restarts, from the folder if the run is done."""
    done = folder / "DONE"
    if done.exists():
        return records.read(folder / "records.parquet").rows(named=True)
    for index in range(len(model.sizes)):
        train_size(task, model, index, extent, seed, folder)
    started = time.process_time()
    net, entropies, size, descriptions = _best_size(task, model, extent, seed, folder)
    summary: dict[str, Any] = {"task": task.name, "model": model.label, "size": dict(size), "seed": seed}
    summary |= {"restarts": extent.restarts, "recipe": dataclasses.asdict(_shortened(model.recipe, extent))}
    summary["entropy"] = entropies.tolist()
    rows = list(_tested(task, net, extent, seed, rounded=False))
    tensors = {f"trained.{name}": value.clone() for name, value in net.state_dict().items()}
    if model.rounding is not None:
        summary |= _rounded(task, net, _shortened(model.rounding, extent), seed, folder)
        rows += _tested(task, net, extent, seed, rounded=True)
        tensors |= {f"rounded.{name}": value for name, value in net.state_dict().items()}
    summary["trained at"] = list(dict.fromkeys([*(of_size["trained at"] for of_size in descriptions), _origin()]))
    seconds = time.process_time() - started + sum(of_size["seconds of one core"] for of_size in descriptions)
    summary["seconds of one core"] = round(seconds, 1)
    records.write(folder / "records.parquet", records.joined([pl.DataFrame(rows)]))
    write_weights(folder / "nets.safetensors", tensors, {"task": task.name, "model": model.label})
    atomic.write_text(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    atomic.write_text(done, "")
    for index in range(len(model.sizes)):
        _size_file(folder, index).unlink()
    return rows


def _rounded(task: Task, net: Net, rounding: Recipe, seed: int, folder: Path) -> dict[str, Any]:
    """Round the nets; remove the unused stacks of Stack RNNs, and write the actions of the best one. Returns what a summary
    says of it."""
    train(task, net, rounding, seed)
    summary: dict[str, Any] = {"rounding": dataclasses.asdict(rounding)}
    if isinstance(net.cell, StackRNN):
        summary["stacks left"] = testing.prune(task, net, seed).tolist()
    entropies = entropy(task, net, seed)
    if isinstance(net.cell, StackRNN):
        lines = testing.trace(task, net, int(entropies.argmin()), seed)
        atomic.write_text(folder / "trace.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    return {**summary, "entropy after rounding": entropies.tolist()}


def train_size(
    task: Task, model: NetModel, index: int, extent: Extent, seed: int, folder: Path, *, quiet: bool = False
) -> None:
    """Train the restarts of one size of a model and write their weights, unless this or the whole run is done already."""
    path = _size_file(folder, index)
    if path.exists() or (folder / "DONE").exists():
        return
    settings = ", ".join(f"{name} {value}" for name, value in model.sizes[index].items())
    logger.info("%s, %s, %s: %d restarts", task.title, model.label, settings, extent.restarts)
    started = time.process_time()
    net = _build(task, model, index, extent)
    net.reset_parameters(torch_generator(seed, "restarts"))
    train(task, net, _shortened(model.recipe, extent), seed, quiet=quiet)
    seconds = time.process_time() - started
    write_weights(path, net.state_dict(), {"trained at": _origin(), "seconds of one core": seconds})


def _best_size(
    task: Task, model: NetModel, extent: Extent, seed: int, folder: Path
) -> tuple[Net, Tensor, Mapping[str, int], list[dict[str, Any]]]:
    """Return the nets of the size with the best restart by entropy, their entropies, the size, and every file's description."""
    candidates, descriptions = [], []
    for index, size in enumerate(model.sizes):
        net = _build(task, model, index, extent)
        tensors, description = read_weights(_size_file(folder, index))
        net.load_state_dict(tensors)
        candidates.append((net, entropy(task, net, seed), size))
        descriptions.append(description)
    return *min(candidates, key=lambda candidate: candidate[1].min().item()), descriptions


def _build(task: Task, model: NetModel, index: int, extent: Extent) -> Net:
    return Net(model.build(len(task.symbols), restarts=extent.restarts, **model.sizes[index]))


def _size_file(folder: Path, index: int) -> Path:
    return folder / f"size-{index}.safetensors"


def _shortened(recipe: Recipe, extent: Extent) -> Recipe:
    return replace(recipe, updates=max(1, round(recipe.updates * extent.share)))


def _origin() -> str:
    """Return commit, processor and torch of this process as text."""
    return origin_of(describe_environment("cpu"))


def _tested(task: Task, net: Net, extent: Extent, seed: int, *, rounded: bool) -> Iterator[Record]:
    """Yield a record per restart, test and size: the share of sequences that are right.

    Tests are soft and, for nets with actions, hard; entropies are those of the same kind of actions.
    """
    near = range(max(task.smallest, 2), extent.largest + 1)
    tests: list[tuple[str, Sequence[int], int]] = []  # protocol, sizes, sequences per size
    for protocol in testing.PROTOCOLS:
        tests.append((protocol, near, extent.streamed if protocol == "stream" else extent.repeats if task.varied else 1))
    tests += [("emptied", [far], extent.streamed if task.varied else 1) for far in extent.far]
    capacity = len(task.symbols) + 1  # rows per size: the symbols of a sequence, and those of a stream before it
    for hard in (False, True) if isinstance(net.cell, ActingCell) else (False,):
        with testing.tested_as(net, hard=hard, capacity=capacity * extent.largest):
            entropies = entropy(task, net, seed).tolist()
        for protocol, sizes, repeats in tests:
            with testing.tested_as(net, hard=hard, capacity=capacity * max(sizes)):
                shares = testing.share_correct(task, net, sizes, protocol, seed, repeats=repeats).tolist()
            for restart, (column, size) in itertools.product(range(len(shares)), enumerate(sizes)):
                share = shares[restart][column]
                yield {
                    "id": f"{restart}-{protocol}-{'hard' if hard else 'soft'}-{'rounded' if rounded else 'trained'}-{size}",
                    "split": "test",
                    "depth": size,
                    "label": None,
                    "score": share,
                    "correct": share == 1.0,
                    "task": task.name,
                    "restart": restart,
                    "protocol": protocol,
                    "hard": hard,
                    "rounded": rounded,
                    "entropy": entropies[restart],
                }


def fingerprint(model: NetModel, extent: Extent) -> str:
    """Return a hash of the settings of a run, except task and seed."""
    rounding = dataclasses.asdict(model.rounding) if model.rounding else None
    build = getattr(model.build, "func", model.build).__name__, getattr(model.build, "keywords", {})
    constants = WINDOW, CLIP, list(training.VALIDATED), testing.TOLERANCE
    recipes = [dataclasses.asdict(model.recipe), rounding]
    settings = [model.label, model.sizes, build, constants, recipes, dataclasses.asdict(extent)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
