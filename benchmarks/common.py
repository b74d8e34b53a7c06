"""What all benchmarks share: the equations, a clock, the peak of memory, rows and how they are shown."""

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
    """One thread."""
    torch.set_num_threads(1)


def read_equations(count: int, files: Sequence[Path] = ()) -> list[Example]:
    """The first so many equations of some files, or of the committed one, from their start again where they are too short."""
    found = [example for file in files or (EQUATIONS,) for example in formats.read(file)]
    return [found[i % len(found)] for i in range(count)]


def make_model(cell: str, hidden: int, **settings: Any) -> Model:
    """A model for verification with initial values from seed 0."""
    model = Model.build(cell, hidden, VOCABULARY, ["verification"], **settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model


def make_batches(model: Model, batch: int, *, shared: bool, data: Sequence[Path] = (), most: int = 8) -> list[Batch]:
    """Batches of the benchmark's equations, shuffled with seed 0, with their plans still to be made."""
    dataset: Dataset = model.prepare(read_equations(max(batch, 1024), data))
    order = np.random.default_rng(0).permutation(len(dataset))
    made = [dataset.batch(order[i : i + batch]) for i in range(0, min(len(order), most * batch), batch)]
    for one in made:
        if not shared:
            one.plans.options = Options(share=False)
    return made


def peak_mb() -> float:
    """The most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_turn(ways: dict[str, Callable[[int], object]], calls: dict[str, int], rounds: int = 5) -> dict[str, float]:
    """CPU seconds of a call of every way, the median over rounds in which they take turns, so that they share what the machine
    has to give. The first two calls of each are not timed."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run(0)
        run(1)
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name, run in ways.items():
            begin = time.process_time()
            for i in range(calls[name]):
                run(i)
            found[name].append((time.process_time() - begin) / calls[name])
    gc.unfreeze()
    return {name: statistics.median(times) for name, times in found.items()}


def show(rows: Sequence[Row], as_json: bool) -> None:
    """Rows as JSON lines for programs, or as a table for people."""
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
