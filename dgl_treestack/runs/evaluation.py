"""Evaluating a model on a data set: the table of its answers, in file order."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import atomic, cluster
from dgl_treestack._torch import subnormals_as_zero
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Table
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import DataError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset, measure
from dgl_treestack.model.model import Model
from dgl_treestack.model.recorded import RecordedResults, attempt, results
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.runs.run import Run

BATCH = 256
# Examples that are prepared at once: whole batches, so that processes which share a file give the same scores.
PART = 20 * BATCH
LEAST = 8 * BATCH  # examples for which answers are worth a record


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy in percent over the labelled examples of a data set."""

    loss: float
    accuracy: float


@torch.no_grad()
def score(
    model: Model, dataset: Dataset, engine: str = "levels", world: World = ALONE, recorded: RecordedResults | None = None
) -> Score:
    """Return loss and accuracy over a labelled data set, in evaluation mode. world: processes that share it out. recorded: of
    the function of this name with the same arguments."""
    losses: list[float] = []
    correct: list[bool] = []
    # Read at the end, so that a GPU does not wait for it.
    for of_losses, of_correct in list(recorded or _results(model, dataset, engine, world, scored=True)):
        losses += of_losses.tolist()
        correct += of_correct.tolist()
    loss, right, outputs = world.sums(sum(losses), sum(correct), len(losses))
    return Score(loss / max(outputs, 1), 100 * right / max(outputs, 1))


def recorded(
    model: Model, dataset: Dataset, engine: str, world: World = ALONE, *, scored: bool = True
) -> RecordedResults | None:
    """Return the results for a data set, recorded for use again and again; None where they are not recorded."""
    chosen = np.split(np.arange(len(dataset)), range(BATCH, len(dataset), BATCH))
    make = partial(RecordedResults, model, dataset, chosen, scored=scored)
    is_alike = engine != "topo" and world.size == 1
    return attempt(next(model.parameters()).device, "Evaluation", make) if is_alike else None


def _results(
    model: Model, dataset: Dataset, engine: str, world: World = ALONE, *, scored: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the results of the batches of a data set, in evaluation mode."""
    model.eval()
    for batch in dataset.batches(BATCH, next(model.parameters()).device, world):
        with subnormals_as_zero():
            output = model(batch, engine)
        yield results(model, output, batch, scored=scored)


@torch.no_grad()
def answers(model: Model, dataset: Dataset, engine: str = "levels", group_by: str = "depth") -> Table:
    """Return the table of answers: a row per output, in order of the examples, from the model in evaluation mode.

    If a task has outputs at nodes, there are the columns `node` and `depth of the tree`, null for outputs of whole trees; id,
    depth and label are then those of the node's subtree. group_by: the measure that the table has as a column, see `measure`.
    """
    outputs: list[Any] = []
    correct: list[bool] = []
    of_batches = recorded(model, dataset, engine, scored=False) if len(dataset) >= LEAST else None
    for output, is_correct in of_batches or _results(model, dataset, engine, scored=False):
        outputs += output.tolist()
        correct += is_correct.tolist()
    place = dataset.example_of_output.tolist()
    examples, items = [dataset.examples[i] for i in place], [dataset.items[i] for i in place]
    nodes, is_judged = dataset.nodes.tolist(), (~np.isnan(dataset.targets)).tolist()
    of_tasks = list(map(model.record, examples, items, dataset.task.tolist(), outputs))
    columns: dict[str, Sequence[Any]] = {
        name: [row.get(name) for row in of_tasks] for name in dict.fromkeys(name for row in of_tasks for name in row)
    }
    columns["correct"] = [bool(right) if judged else None for right, judged in zip(correct, is_judged, strict=True)]
    if any(isinstance(item.target, Mapping) for item in items):
        of_nodes: list[tuple[Any, ...]] = []
        for example, item, node in zip(examples, items, nodes, strict=True):
            if isinstance(item.target, Mapping):
                label = example.labels[node] if example.labels else (None if node else example.label)
                of_nodes.append((f"{example.id}/{node}", item.tree.heights[node], label, node, item.tree.depth))
            else:
                of_nodes.append((example.id, example.equation.depth, example.label, None, None))
        columns |= dict(zip(("id", "depth", "label", "node", "depth of the tree"), zip(*of_nodes, strict=True), strict=True))
    if group_by != "depth":
        columns[group_by] = [measure(group_by, *row) for row in zip((e.equation for e in examples), nodes, strict=True)]
    return records.of_examples(examples, columns)


def evaluate(
    run: Run,
    data: str,
    *,
    output: Path | None = None,
    engine: str = "levels",
    dtype: torch.dtype = torch.float32,
    jobs: Jobs = 1,
) -> Table:
    """Evaluate a run's best weights on a data file; the answers go into the run, and to the file `output` as JSON Lines.

    jobs: processes, or a cluster, that share the file out. Raises DataError for a file without equations.
    """
    if jobs == 1:
        table = answers_on(run.load_model(dtype), data, engine, run.config.data.group_by)
    else:
        content, parts = pack(run), _parts(data, run.language)
        with workers(jobs) as pool:
            tasks = [pool.submit(_answers_of_part, content, part, engine, dtype) for part in parts]
            table = records.joined(task.result() for task in tasks)
    if output is not None:
        atomic.write_json_lines(output, records.rows_of(table))
    run.write_records(data, table)
    return table


def answers_on(model: Model, data: str, engine: str, group_by: str, world: World = ALONE) -> Table:
    """Return the answers to a data file in file order; of several processes the first gets all, the others their own part.

    Raises DataError for a file without equations.
    """
    parts = _parts(data, model.signature, world)
    return records.joined(world.gathered([answers(model, model.prepare(part), engine, group_by) for part in parts]))


def _parts(data: str, signature: Signature, world: World = ALONE) -> list[Sequence[Example]]:
    """Return the examples of a file that are this process's, in parts of neighbours that are prepared at once."""
    examples = formats.read_examples([data], signature=signature)
    if not examples:
        raise DataError("There are no examples in the file.", data)
    own = examples[world.part(len(examples))]
    return [own[start : start + PART] for start in range(0, len(own), PART)]


def _answers_of_part(content: bytes, part: Sequence[Example], engine: str, dtype: torch.dtype) -> Table:
    """Return the answers to a part, in another process. content: the packed run."""
    torch.set_num_threads(1)  # the processes share the cores already
    model, group_by = unpack(content, dtype)
    return answers(model, model.prepare(part), engine, group_by)


def pack(run: Run) -> bytes:
    """Return the files of a run that its model is made from."""
    return cluster.pack(run.folder, (*sorted(run.folder.glob("*.toml")), *sorted(run.folder.glob("*.json")), run.best))


@lru_cache(maxsize=1)
def unpack(content: bytes, dtype: torch.dtype) -> tuple[Model, str]:
    """Return the model of a packed run with its best weights, and the measure by which its records are grouped."""
    with tempfile.TemporaryDirectory() as folder:
        cluster.extract(content, folder)
        run = Run.open(Path(folder))
        return run.load_model(dtype), run.config.data.group_by
