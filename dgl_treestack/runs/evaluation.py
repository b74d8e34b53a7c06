"""Evaluating a model on a data set: one record per tree, or per node with a target, in file order."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgl_treestack import atomic
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import DataError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset, ExampleSet
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.runs import packed
from dgl_treestack.runs.run import Run

BATCH = 256
PART = (
    20 * BATCH
)  # examples that are prepared at once; whole batches, so that processes which share a file give the same scores


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy in percent over the labelled examples of a data set."""

    loss: float
    accuracy: float


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Let the processor take subnormal numbers as zero, until the context ends: below 1.2e-38 in float32, 2.2e-308 in float64.

    Weight decay leaves such numbers in weights that have no gradient, and with many of them a Transformer takes ten times as
    long. The setting is one of this thread, for the numbers of Python and NumPy too; threads that start in the context keep
    it, earlier ones do not get it. Processors without the setting ignore it.
    """
    are_zero = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(are_zero)


@torch.no_grad()
def score(model: Model, dataset: Dataset, engine: str = "levels", world: World = ALONE) -> Score:
    """Return loss and accuracy over a labelled data set, in evaluation mode. world: processes that share it out."""
    model.eval()
    losses: list[float] = []
    correct: list[bool] = []
    for batch in dataset.batches(BATCH, next(model.parameters()).device, world):
        with subnormals_as_zero():
            output = model(batch, engine)
        losses += model.losses(output, batch).tolist()
        correct += model.correct(output, batch).tolist()
    loss, right, outputs = world.sums(sum(losses), sum(correct), len(losses))
    return Score(loss / max(outputs, 1), 100 * right / max(outputs, 1))


@torch.no_grad()
def make_records(model: Model, dataset: ExampleSet, engine: str = "levels", group_by: str = "depth") -> Iterator[Record]:
    """Yield one record per output, in order of the examples, from the model in evaluation mode.

    If a task has outputs at nodes, a record has the columns `node` and `depth of the tree`; depth and label are those of the
    node's subtree.
    group_by: the measure that the records have as a column, see `records.measure`. JSON has no infinity and no NaN: a number
    that is not finite becomes None.
    """
    model.eval()
    example_of_output = np.repeat(np.arange(len(dataset)), np.diff(dataset.offsets)).tolist()
    i = 0
    for batch in dataset.batches(BATCH, next(model.parameters()).device):
        with subnormals_as_zero():
            output = model(batch, engine)
        for value, correct in zip(output.tolist(), model.correct(output, batch).tolist(), strict=True):
            example, item = dataset.examples[example_of_output[i]], dataset.items[example_of_output[i]]
            row: Record = {name: value for name, value in (("pair", example.pair), ("family", example.family)) if value}
            if example.certificate is not None:
                row["cut"] = bool(example.certificate.get("cut"))
            node = int(dataset.nodes[i])
            if isinstance(item.target, Mapping):
                label = example.labels[node] if example.labels else (None if node else example.label)
                depth = item.tree.heights[node]
                of_node = {"id": f"{example.id}/{node}", "depth": depth, "label": label, "node": node}
                row |= {**of_node, "depth of the tree": item.tree.depth}
            if group_by != "depth":
                row[group_by] = records.measure(group_by, example.equation, node)
            for name, entry in model.record(example, item, dataset.task[i], value).items():
                row[name] = [_finite(number) for number in entry] if isinstance(entry, list) else _finite(entry)
            row["correct"] = None if np.isnan(dataset.targets[i]) else bool(correct)
            yield records.of_example(example, **row)
            i += 1


def _finite(entry: Any) -> Any:
    return None if isinstance(entry, float) and not math.isfinite(entry) else entry


def evaluate(
    run: Run,
    data: str,
    *,
    output: Path | None = None,
    engine: str = "levels",
    dtype: torch.dtype = torch.float32,
    jobs: Jobs = 1,
) -> list[Record]:
    """Evaluate a run's best weights on a data file; the records go into the run, and to the file `output`.

    jobs: processes, or a cluster, that share the file out. Raises DataError for a file without equations.
    """
    if jobs == 1:
        rows = rows_of(run.load_model(dtype), data, engine, run.config.data.group_by)
    else:
        content, examples = packed.pack(run), _examples(data, run.language)
        with workers(jobs) as pool:
            tasks = [pool.submit(_rows_of_part, content, part, engine, dtype) for part in _parts(examples)]
            rows = [row for task in tasks for row in task.result()]
    if output is not None:
        atomic.write_json_lines(output, rows)
    run.write_records(data, rows)
    return rows


def _examples(data: str, signature: Signature) -> list[Example]:
    """Return the examples of a file. Raises DataError when there are none."""
    examples = formats.read_examples([data], signature=signature)
    if not examples:
        raise DataError("There are no examples in the file.", data)
    return examples


def rows_of(model: Model, data: str, engine: str, group_by: str, world: World = ALONE) -> list[Record]:
    """Return the records of a data file in file order. Several processes share it out: the first gets all records, the others
    those of their own part.

    Raises DataError for a file without equations.
    """
    examples = _examples(data, model.signature)
    parts = _parts(examples[world.part(len(examples))])
    return world.gathered([row for part in parts for row in make_records(model, model.prepare(part), engine, group_by)])


def _parts(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Yield neighbouring examples that are prepared at once."""
    yield from (examples[start : start + PART] for start in range(0, len(examples), PART))


def _rows_of_part(content: bytes, part: Sequence[Example], engine: str, dtype: torch.dtype) -> list[Record]:
    """Return the records of a part, in another process. content: the packed run."""
    torch.set_num_threads(1)
    model, group_by = packed.unpack(content, dtype)
    return list(make_records(model, model.prepare(part), engine, group_by))
