"""What a model does inside an equation: the state of every node, its gates, and the verdict at the root."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dgl_treestack.cells.memory.stack import ACTIONS
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.expression import Expression
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.runs.evaluation import make_records
from dgl_treestack.runs.folder import sha256
from dgl_treestack.runs.run import Run

BATCH = 64


@dataclass(frozen=True, eq=False)
class Trace:
    """One model on one equation of N nodes in pre-order.

    record: as `evaluate` writes it. h: (N, H). stack: (N, S, H), or None where there is none. gates: signal -> (N,) its mean
    over elements, or (N, A) per child; NaN where a node has none: leaves, and the root of an equation.
    """

    tree: Expression
    record: Record
    h: np.ndarray
    stack: np.ndarray | None
    gates: Mapping[str, np.ndarray]

    @property
    def actions(self) -> dict[str, np.ndarray]:
        """Push, pop and no-op, those that the model has: action -> (N,)."""
        return {name: self.gates[name] for name in ACTIONS if name in self.gates}

    def sides(self) -> dict[str, float]:
        """Of the states of the two sides of an equation: dot product, cosine, lengths. Empty for other trees."""
        places = self.tree.children(0)
        if self.tree.names[0] != self.tree.signature.root or len(places) != 2:
            return {}
        left, right = (self.h[place].astype(np.float64) for place in places)
        lengths = float(np.linalg.norm(left)), float(np.linalg.norm(right))
        dot = float(left @ right)
        return {"dot": dot, "cosine": dot / max(lengths[0] * lengths[1], 1e-30), "left": lengths[0], "right": lengths[1]}


def make(run: Run, examples: Sequence[Example]) -> list[Trace]:
    """What a run's model does in some equations, in order. Scores are those of the run's records where it has records of them.

    Raises CheckpointError for a damaged run, DataError for an example that the model was not made for, ConfigurationError for a
    sequence or attention model.
    """
    model = run.load_model()
    dataset = model.prepare(examples)
    known = _known(run, examples)
    rows = make_records(model, dataset)
    return [
        Trace(tree, known.get(example.source, row), h, stack, gates)
        for example, row, (tree, h, stack, gates) in zip(examples, rows, _nodes(model, dataset), strict=True)
    ]


def _known(run: Run, examples: Sequence[Example]) -> dict[str, Record]:
    """The run's records by where their equations were read (`path:line`), for the files that it has records of.

    Records are in file order, and a file's equations stand on lines that rise, so ids may be missing or double.
    """
    found: dict[str, Record] = {}
    for file in {example.source.rsplit(":", 1)[0] for example in examples if example.source}:
        rows = run.read_records_by_checksum(sha256(Path(file)))
        if rows:
            found |= {one.source: row for one, row in zip(formats.read(file), rows, strict=True)}
    return found


@torch.no_grad()
def _nodes(model: Model, dataset: Dataset) -> Iterator[tuple[Expression, np.ndarray, np.ndarray | None, dict[str, np.ndarray]]]:
    i = 0
    for batch in dataset.batches(BATCH):
        model.eval()(batch, signals=list(model.tree_cell.signals), keep=True)
        h, stack, gates = _features(model, batch)
        ends = np.cumsum(batch.graph.batch_num_nodes().numpy())
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            own = {name: values[start:end] for name, values in gates.items()}
            yield dataset.items[i].tree, h[start:end], None if stack is None else stack[start:end], own
            i += 1


def _features(model: Model, batch: Batch) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray]]:
    nodes = batch.graph.ndata
    shape = model.tree_cell.fields.get("stack")
    stack = nodes["stack"].unflatten(1, (shape[0], -1)).numpy() if shape else None
    signature = model.signature
    equality = signature.index[signature.root] if signature.root else None
    silent = (nodes["op"] < 0) if equality is None else (nodes["op"] < 0) | (nodes["op"] == equality)
    gates = {}
    for name in model.tree_cell.signals:
        mean = nodes[f"signal/{name}"].mean(-1)
        mean[silent] = float("nan")
        gates[name] = mean.numpy()
    return nodes["h"].numpy(), stack, gates


def difference(one: Trace, other: Trace) -> np.ndarray:
    """(N,) how far apart the actions of two models are at every node: half the sum of differences, 0 to 1; NaN where one of
    them has no actions."""
    names = [name for name in ACTIONS if name in one.gates or name in other.gates]
    if not (one.actions and other.actions):
        return np.full(one.tree.size, np.nan)
    absent = np.zeros(one.tree.size)
    shares = []
    for trace in (one, other):
        values = np.stack([trace.gates.get(name, absent) for name in names])
        shares.append(values / np.maximum(values.sum(0), 1e-30))
    return np.asarray(0.5 * np.abs(shares[0] - shares[1]).sum(0))
