"""The values that a model computes inside an equation: states and gates of all nodes, and the record of the equation."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from dgl_treestack.cells.memory.stack import ACTIONS
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.data.wellformed import NO_OPERATOR
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Label
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.resources import sha256
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

BATCH = 64


@dataclass(frozen=True, eq=False)
class Trace:
    """One model on one equation of N nodes in pre-order.

    record: as `evaluate` writes it, for the root. h: (N, H). stack: (N, S, H), the top row first, or None for a model without
    stacks. gates: signal -> (N,), its mean over elements, or (N, A) per child; NaN where nothing is computed: at leaves and at
    the root of an equation. answers: node -> its record with the answer there, a class; empty for tasks without classes.
    labels: per node, empty if nodes have none.
    """

    tree: Expression
    record: Record
    h: np.ndarray
    stack: np.ndarray | None
    gates: Mapping[str, np.ndarray]
    answers: Mapping[int, Record] = field(default_factory=dict)
    labels: Sequence[Label] = ()

    @property
    def actions(self) -> dict[str, np.ndarray]:
        """The gates that are stack actions, those of push, pop and no-op that the model has: action -> (N,)."""
        return {name: self.gates[name] for name in ACTIONS if name in self.gates}

    def sides(self) -> dict[str, float]:
        """Compare the states of the two sides of an equation: dot product, cosine, lengths. Empty for other trees."""
        children = self.tree.children(0)
        if self.tree.names[0] != self.tree.signature.root or len(children) != 2:
            return {}
        left, right = (self.h[child].astype(np.float64) for child in children)
        lengths = float(np.linalg.norm(left)), float(np.linalg.norm(right))
        dot = float(left @ right)
        return {"dot": dot, "cosine": dot / max(lengths[0] * lengths[1], 1e-30), "left": lengths[0], "right": lengths[1]}


def make(run: Run, examples: Sequence[Example]) -> list[Trace]:
    """Trace a run's model on equations, in order.

    The record of a trace is that of the run, if the run has records of the example's file; otherwise it is computed.
    Raises CheckpointError for a damaged run, DataError for an example that fits no task of the model, ConfigurationError for a
    sequence or attention model.
    """
    model = run.load_model()
    dataset = model.prepare(examples)
    saved = _saved_records(run, examples)
    computed = evaluation.answers(model, dataset).iter_rows(named=True)
    traces = []
    counts = np.diff(dataset.offsets).tolist()
    for example, count, (tree, h, stack, gates) in zip(examples, counts, _propagate(model, dataset), strict=True):
        record_of_node = {row.get("node") or 0: row for row in itertools.islice(computed, count)}
        task = next(iter(record_of_node.values()))["task"]
        blank = records.of_examples([example], {"task": [task]}).row(0, named=True)
        record = saved.get(example.source) or record_of_node.get(0) or blank
        answers = {node: row for node, row in record_of_node.items() if isinstance(row.get("predicted"), str)}
        traces.append(Trace(tree, record, h, stack, gates, answers, example.labels))
    return traces


def _saved_records(run: Run, examples: Sequence[Example]) -> dict[str, Record]:
    """Return the run's records of the examples' files: `path:line` of an equation -> record. Records of nodes are left out.

    Equations and records are matched by their order in the file, since ids may be missing or repeated.
    """
    records_by_source: dict[str, Record] = {}
    for file in {example.source.rsplit(":", 1)[0] for example in examples if example.source}:
        table = run.read_records_by_checksum(sha256(Path(file)))
        if table is not None and "node" not in table.columns:
            rows = table.iter_rows(named=True)
            records_by_source |= {
                example.source: row for example, row in zip(formats.read(file, run.language), rows, strict=True)
            }
    return records_by_source


@torch.no_grad()
def _propagate(
    model: Model, dataset: Dataset
) -> Iterator[tuple[Expression, np.ndarray, np.ndarray | None, dict[str, np.ndarray]]]:
    """Yield tree, h, stack and gates of every equation, as `Trace` has them."""
    root = model.signature.root_index
    stack_shape = model.tree_cell.fields.get("stack")
    items = iter(dataset.items)
    for batch in dataset.batches(BATCH):
        model.eval()(batch, signals=list(model.tree_cell.signals), keep=True)
        features = batch.graph.ndata
        h = features["h"].numpy()
        stack = features["stack"].unflatten(1, (stack_shape[0], -1)).numpy() if stack_shape else None
        computes_nothing = (features["op"] == NO_OPERATOR) | (features["op"] == root)
        gates = {}
        for name in model.tree_cell.signals:
            mean = features[f"signal/{name}"].mean(-1)
            mean[computes_nothing] = float("nan")
            gates[name] = mean.numpy()
        ends = np.cumsum(batch.graph.batch_num_nodes().numpy())
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            gates_of_tree = {name: values[start:end] for name, values in gates.items()}
            yield next(items).tree, h[start:end], None if stack is None else stack[start:end], gates_of_tree


def difference(first: Trace, second: Trace) -> np.ndarray:
    """Return (N,) the distance between the actions of two models at every node, from 0 to 1; NaN if one has no actions.

    The actions of a model are divided by their sum; the result is half the sum of absolute differences (total variation).
    """
    if not (first.actions and second.actions):
        return np.full(first.tree.size, np.nan)
    names = [name for name in ACTIONS if name in first.gates or name in second.gates]
    absent = np.zeros(first.tree.size)
    shares = []
    for trace in (first, second):
        values = np.stack([trace.gates.get(name, absent) for name in names])
        shares.append(values / np.maximum(values.sum(0), 1e-30))
    return np.asarray(0.5 * np.abs(shares[0] - shares[1]).sum(0))
