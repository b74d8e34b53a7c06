"""The model of a run as bytes, for processes and machines that do not see the run folder."""

import tempfile
from functools import lru_cache
from pathlib import Path

import torch

from dgl_treestack import cluster
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run


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
