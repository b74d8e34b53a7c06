"""Traces as one page of HTML that needs nothing else: no network, no server."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data.formats import Example
from dgl_treestack.expression import Expression
from dgl_treestack.inspection.drawing import label
from dgl_treestack.inspection.traces import Trace

TEMPLATE = Path(__file__).with_name("page.html")
MARK = "{{data}}"  # where the template takes the data
LEVELS = 127  # heat maps have whole numbers from -127 to 127


def write(path: Path, title: str, examples: Sequence[Example], traces: Mapping[str, Sequence[Trace]]) -> None:
    """Write the page of some equations and of what every model made of them, model -> traces in the order of the examples."""
    data = {
        "title": title,
        "models": list(traces),
        "equations": [_equation(example, {name: own[i] for name, own in traces.items()}) for i, example in enumerate(examples)],
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")  # no tag can be closed from within
    atomic.write_text(path, TEMPLATE.read_text().replace(MARK, text))


def _equation(example: Example, traces: Mapping[str, Trace]) -> dict[str, Any]:
    tree = next(iter(traces.values())).tree
    return {
        "id": example.id,
        "text": str(example.equation),
        "depth": example.equation.depth,
        "label": example.label,
        "fold": example.fold,
        "nodes": [_node(tree, node) for node in range(tree.size)],
        "models": {name: _model(trace) for name, trace in traces.items()},
    }


def _node(tree: Expression, node: int) -> dict[str, Any]:
    return {"label": label(tree, node), "leaf": tree.texts[node] is not None, "children": tree.children(node)}


def _model(trace: Trace) -> dict[str, Any]:
    """Score and verdict as the record has them, gates by node to four digits, states as coarse maps."""
    row = trace.record
    return {
        "score": row["score"],
        "correct": row["correct"],
        "task": row["task"],
        "sides": {name: round(value, 4) for name, value in trace.sides().items()},
        "gates": gates_of(trace),
        "actions": list(trace.actions),
        "rows": rows_of(trace),
        "stack": None if trace.stack is None else _heat(trace.stack),
        "h": _heat(trace.h[:, None]),
    }


def gates_of(trace: Trace) -> dict[str, Any]:
    """Gate -> a number per node, or one per child; None where a node has none."""
    return {name: [_number(value) for value in values] for name, values in trace.gates.items()}


def rows_of(trace: Trace) -> list[list[float]] | None:
    """Per node the lengths of the rows of its stack, None for a model without stacks."""
    return None if trace.stack is None else np.linalg.norm(trace.stack, axis=2).astype(float).round(4).tolist()


def _number(value: Any) -> Any:
    """A mean gate, or those of all children; None where a node has none."""
    if np.ndim(value):
        return [_number(one) for one in value]
    return None if math.isnan(value) else round(float(value), 4)


def _heat(values: np.ndarray) -> dict[str, Any]:
    """(N, rows, columns) as bytes, in base64: `most` is the value of 127."""
    most = float(np.abs(values).max(initial=0.0))
    levels = np.zeros(values.shape, np.int8) if most == 0 else np.rint(values / most * LEVELS).astype(np.int8)
    return {
        "rows": values.shape[1],
        "columns": values.shape[2],
        "most": most,
        "bytes": base64.b64encode(levels.tobytes()).decode(),
    }
