"""The values that a model computes inside an equation: states and gates of all nodes, and the record of the equation."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from dgl_treestack.cells.memory.stack import ACTIONS
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.data.wellformed import NO_OPERATOR
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Label
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

BATCH = 64


@dataclass(frozen=True, eq=False)
class Trace:
    """One model on one equation of N nodes in pre-order.

    record: as `evaluate` writes it, for the root. h: (N, H). stacks: field -> (N, S, W), the top row first, for every field of
    rows. gates: signal -> (N,), its mean over elements, or (N, A) per child; NaN where nothing is computed: at leaves and at
    the root of an equation. answers: node -> its record with the answer there, a class; empty for tasks without classes.
    labels: per node, empty if nodes have none.
    """

    tree: Expression
    record: Record
    h: np.ndarray
    stacks: Mapping[str, np.ndarray]
    gates: Mapping[str, np.ndarray]
    answers: Mapping[int, Record] = field(default_factory=dict)
    labels: Sequence[Label] = ()

    @property
    def actions(self) -> dict[str, np.ndarray]:
        """The gates that are stack actions: action -> (N,).

        Push, pop and no-op, perhaps after the name of one of several stacks, as in `c_push`; if there are none of them, all
        gates of a model with stacks, but those per child.
        """
        actions = {name: self.gates[name] for name in self.gates if name.rpartition("_")[2] in ACTIONS}
        others = {name: values for name, values in self.gates.items() if values.ndim == 1}
        return actions or (others if self.stacks else {})

    def sides(self) -> dict[str, float]:
        """Compare the states of the two sides of an equation: dot product, cosine, lengths. Empty for other trees."""
        children = self.tree.children(0)
        if self.tree.names[0] != self.tree.signature.root or len(children) != 2:
            return {}
        left, right = (self.h[child].astype(np.float64) for child in children)
        lengths = float(np.linalg.norm(left)), float(np.linalg.norm(right))
        dot = float(left @ right)
        return {"dot": dot, "cosine": dot / max(lengths[0] * lengths[1], 1e-30), "left": lengths[0], "right": lengths[1]}


@torch.no_grad()
def make(run: Run, examples: Sequence[Example]) -> list[Trace]:
    """Trace a run's model on equations, in order.

    The record of a trace is that of the run, if the run has records of the example's file; otherwise it is computed.
    Raises CheckpointError for a damaged run, DataError for an example that fits no task of the model, ConfigurationError for a
    sequence or attention model.
    """
    model = run.load_model()
    dataset = model.prepare(examples)
    # Equations and saved records are matched by their order in the file, since ids may be missing or repeated.
    saved: dict[str, Record] = {}
    for file in {example.source.rsplit(":", 1)[0] for example in examples if example.source}:
        table = run.read_records(file) if run.has_records(file) else None
        if table is not None and "node" not in table.columns:
            rows = zip(formats.read(file, run.language), table.iter_rows(named=True), strict=True)
            saved |= {example.source: row for example, row in rows}
    computed = evaluation.answers(model, dataset).iter_rows(named=True)
    rows_of_stack = {name: shape[0] for name, shape in model.tree_cell.fields.items() if len(shape) == 2}
    rest, traces = zip(examples, dataset.items, np.diff(dataset.offsets).tolist(), strict=True), list[Trace]()
    for batch in dataset.batches(BATCH):
        model.eval()(batch, signals=list(model.tree_cell.signals), keep=True)
        features = batch.graph.ndata
        stacks = {name: features[name].unflatten(1, (rows, -1)).numpy() for name, rows in rows_of_stack.items()}
        computes_nothing = (features["op"] == NO_OPERATOR) | (features["op"] == model.signature.root_index)
        gates = {name: features[f"signal/{name}"].mean(-1) for name in model.tree_cell.signals}
        for mean in gates.values():
            mean[computes_nothing] = float("nan")
        ends = np.cumsum(batch.graph.batch_num_nodes().numpy())
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            example, item, count = next(rest)
            record_of_node = {row.get("node") or 0: row for row in itertools.islice(computed, count)}
            task = next(iter(record_of_node.values()))["task"]
            blank = records.of_examples([example], {"task": [task]}).row(0, named=True)
            record = saved.get(example.source) or record_of_node.get(0) or blank
            trace = Trace(
                item.tree,
                record,
                features["h"].numpy()[start:end],
                {name: values[start:end] for name, values in stacks.items()},
                {name: values.numpy()[start:end] for name, values in gates.items()},
                {node: row for node, row in record_of_node.items() if isinstance(row.get("predicted"), str)},
                example.labels,
            )
            traces.append(trace)
    return traces


def difference(first: Trace, second: Trace) -> np.ndarray:
    """Return (N,) the distance between the actions of two models at every node, from 0 to 1; NaN if one has no actions.

    The actions of a model are divided by their sum; the result is half the sum of absolute differences (total variation).
    """
    if not (first.actions and second.actions):
        return np.full(first.tree.size, np.nan)
    names = dict.fromkeys((*first.actions, *second.actions))
    absent = np.zeros(first.tree.size)
    shares = []
    for trace in (first, second):
        values = np.stack([trace.actions.get(name, absent) for name in names])
        shares.append(values / np.maximum(values.sum(0), 1e-30))
    return np.asarray(0.5 * np.abs(shares[0] - shares[1]).sum(0))
