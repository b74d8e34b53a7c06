"""Evaluating a model on a data set: one record per equation, in file order."""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dgl_treestack.data import formats, records
from dgl_treestack.data.records import Record
from dgl_treestack.errors import DataError
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.runs.run import Run

BATCH = 256


@dataclass(frozen=True)
class Score:
    """Mean loss and accuracy in percent over the labelled examples of a data set."""

    loss: float
    accuracy: float


def read_examples(names: Sequence[str]) -> list[formats.Example]:
    """The examples of data files by path or bundled name."""
    return [example for name in names for example in formats.read(find_data(name))]


@torch.no_grad()
def outputs(model: Model, dataset: Dataset, engine: str = "levels") -> Iterator[tuple[int, float, float, bool]]:
    """(position, output, loss, right) of every example, in order, in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    i = 0
    for batch in dataset.batches(BATCH, device):
        output = model(batch, engine)
        columns = (output, model.losses(output, batch), model.correct(output, batch))
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield i, row[0], row[1], bool(row[2])
            i += 1


def read_share(names: Sequence[str], percent: float) -> list[formats.Example]:
    """About so many per cent of the examples, pairs together, chosen by their names."""
    found = read_examples(names)
    return found if percent >= 100 else [example for example in found if _place(example) < percent]


def _place(example: formats.Example) -> float:
    """Where a pair stands from 0 to 100, the same in every run."""
    return 100 * zlib.crc32((example.pair or example.id).encode()) / 2**32


def score(model: Model, dataset: Dataset, engine: str = "levels") -> Score:
    """Loss and accuracy over a labelled data set."""
    losses, right = [], []
    for _, _, loss, correct in outputs(model, dataset, engine):
        losses.append(loss)
        right.append(correct)
    return Score(sum(losses) / max(len(losses), 1), 100 * sum(right) / max(len(right), 1))


def make_records(model: Model, dataset: Dataset, engine: str = "levels") -> Iterator[Record]:
    """One record per example, in order."""
    for i, output, _, correct in outputs(model, dataset, engine):
        example = dataset.examples[i]
        known = not np.isnan(dataset.targets[i])
        own: Record = {"pair": example.pair} if example.pair else {}
        own |= {**_without_infinities(model.record(dataset, i, output)), "correct": correct if known else None}
        yield records.of_example(example, **own)


def _without_infinities(row: Record) -> Record:
    """JSON has no infinity and no NaN: a number that is not finite becomes None."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def evaluate(
    run: Run, data: str, *, output: Path | None = None, engine: str = "levels", dtype: torch.dtype = torch.float32
) -> list[Record]:
    """Evaluate a run's best weights on a data file; records go into the run, and to `output` if given.

    Raises DataError for a file without equations.
    """
    examples = read_examples([data])
    if not examples:
        raise DataError("There are no equations in the file.", data)
    model = run.load_model(dtype)
    rows = list(make_records(model, model.prepare(examples), engine))
    if output is not None:
        records.write(output, rows)
    run.write_records(data, rows)
    return rows
