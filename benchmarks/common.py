"""Shared by all benchmarks: the equations, timing, peak memory, and printing of rows."""

import gc
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import Options

EQUATIONS = Path(__file__).parent / "equations.jsonl.gz"
VOCABULARY = Vocabulary.preset("canonical")
Row = dict[str, Any]


def start() -> None:
    """Use one thread."""
    torch.set_num_threads(1)


def read_equations(count: int, files: Sequence[Path] = ()) -> list[Example]:
    """The first `count` equations of the files, by default of the committed one, repeated from the start if there are fewer."""
    examples = [example for file in files or (EQUATIONS,) for example in formats.read(file)]
    return [examples[i % len(examples)] for i in range(count)]


def make_model(cell: str, hidden: int, **settings: Any) -> Model:
    """A model for verification with initial values from seed 0."""
    model = Model.build(cell, hidden, VOCABULARY, ["verification"], **settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model


def make_batches(model: Model, batch: int, *, shared: bool, data: Sequence[Path] = (), most: int = 8) -> list[Batch]:
    """At most `most` batches of the benchmark's equations, shuffled with seed 0, without plans."""
    dataset: Dataset = model.prepare(read_equations(max(batch, 1024), data))
    order = np.random.default_rng(0).permutation(len(dataset))
    batches = [dataset.batch(order[i : i + batch]) for i in range(0, min(len(order), most * batch), batch)]
    for prepared in batches:
        if not shared:
            prepared.plans.options = Options(share=False)
    return batches


def peak_mb() -> float:
    """Peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_turn(
    ways: dict[str, Callable[[int], object]],
    calls: dict[str, int],
    rounds: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Median CPU seconds of a call of every function, measured in turn, so that all see the same load of the machine. The first
    two calls of each are not timed. clock: another one in place of CPU time."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run(0)
        run(1)
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name, run in ways.items():
            begin = clock()
            for i in range(calls[name]):
                run(i)
            seconds[name].append((clock() - begin) / calls[name])
    gc.unfreeze()
    return {name: statistics.median(times) for name, times in seconds.items()}


def show(rows: Sequence[Row], as_json: bool) -> None:
    """Print rows as JSON lines, or as a table."""
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_text(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
