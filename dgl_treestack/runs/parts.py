"""A data file evaluated in parts, each by another process or machine; the model of a run travels as bytes."""

import io
import tarfile
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch

from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run


def rows_of(run: Run, examples: Sequence[Example], engine: str, dtype: torch.dtype, jobs: Jobs) -> list[Record]:
    """Return the records of examples in their order, as `evaluation.make_records` of the run's best weights. jobs: where."""
    content = pack(run)
    with workers(jobs) as pool:
        size = evaluation.PART
        parts = (list(examples[start : start + size]) for start in range(0, len(examples), size))
        tasks = [pool.submit(_evaluate, content, part, engine, dtype) for part in parts]
        return [row for task in tasks for row in task.result()]


def _evaluate(content: bytes, examples: Sequence[Example], engine: str, dtype: torch.dtype) -> list[Record]:
    """Return the records of a part."""
    torch.set_num_threads(1)
    model, group_by = unpacked(content, dtype)
    return list(evaluation.make_records(model, model.prepare(examples), engine, group_by))


def pack(run: Run) -> bytes:
    """Return the files of a run that its model is made from, as an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in (*sorted(run.folder.glob("*.toml")), *sorted(run.folder.glob("*.json")), run.best):
            archive.add(path, arcname=str(path.relative_to(run.folder)))
    return buffer.getvalue()


@lru_cache(maxsize=1)
def unpacked(content: bytes, dtype: torch.dtype) -> tuple[Model, str]:
    """Return the model of a packed run, and the measure by which its records are grouped."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(folder, filter="data")
        run = Run.open(Path(folder))
        return run.load_model(dtype), run.config.data.group_by
