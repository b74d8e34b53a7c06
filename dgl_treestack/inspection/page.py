"""Traces as one self-contained HTML page: no network, no server."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data.formats import Example
from dgl_treestack.inspection.drawing import label
from dgl_treestack.inspection.traces import Trace

TEMPLATE = Path(__file__).with_name("page.html")
MARK = "{{data}}"  # the template's placeholder for the data
LEVELS = 127  # heat maps have whole numbers from -127 to 127


def write(path: Path, title: str, examples: Sequence[Example], traces: Mapping[str, Sequence[Trace]]) -> None:
    """Write a page to browse equations and the values that models compute in them.

    traces: model -> its traces, in the order of the examples.
    """
    equations = []
    for i, example in enumerate(examples):
        trace_of_model = {name: traces_of_model[i] for name, traces_of_model in traces.items()}
        tree = next(iter(trace_of_model.values())).tree
        nodes = [
            {"label": label(name, text, tree.signature), "leaf": text is not None, "children": tree.children(node)}
            for node, (name, text) in enumerate(zip(tree.names, tree.texts, strict=True))
        ]
        equation = {"id": example.id, "text": str(example.equation), "depth": example.equation.depth, "label": example.label}
        equation["labels"] = list(example.labels)
        models = {name: _describe_model(trace) for name, trace in trace_of_model.items()}
        equations.append({**equation, "fold": example.fold, "nodes": nodes, "models": models})
    data = {"title": title, "models": list(traces), "equations": equations}
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")  # no text can close a tag
    atomic.write_text(path, TEMPLATE.read_text().replace(MARK, text))


def _describe_model(trace: Trace) -> dict[str, Any]:
    """Return the page's data of one model on one equation: its record, rounded means and norms, states as heat maps."""
    gates, rows = gates_and_norms(trace)
    return {
        "score": trace.record["score"],
        "correct": trace.record["correct"],
        "task": trace.record["task"],
        "answers": answers(trace),
        "sides": {name: round(value, 4) for name, value in trace.sides().items()},
        "gates": gates,
        "actions": list(trace.actions),
        "rows": rows,
        "stack": None if trace.stack is None else _heat_map(trace.stack),
        "h": _heat_map(trace.h[:, None]),
    }


def answers(trace: Trace) -> list[str | None]:
    """Return the class that the model answers at every node, None where it answers none; empty without any answer."""
    return [trace.answers.get(node, {}).get("predicted") for node in range(trace.tree.size)] if trace.answers else []


def gates_and_norms(trace: Trace) -> tuple[dict[str, list], list[list[float]] | None]:
    """Return gates and norms of stack rows of every node for JSON, to four decimals.

    gates: name -> a mean per node, or a list of means per child; None for a node without gates. norms: per node a list, the
    top row first; None for a model without stacks.
    """
    gates = {}
    for name, values in trace.gates.items():
        means = [None if math.isnan(mean) else round(mean, 4) for mean in values.astype(float).flatten().tolist()]
        gates[name] = np.array(means, dtype=object).reshape(values.shape).tolist()
    if trace.stack is None:
        return gates, None
    return gates, np.linalg.norm(trace.stack, axis=2).astype(float).round(4).tolist()


def _heat_map(values: np.ndarray) -> dict[str, Any]:
    """Return (N, rows, columns) as signed bytes in base64; `most` is the absolute value of 127."""
    most = float(np.abs(values).max(initial=0.0))
    levels = np.zeros(values.shape, np.int8) if most == 0 else np.rint(values / most * LEVELS).astype(np.int8)
    rows, columns = values.shape[1:]
    return {"rows": rows, "columns": columns, "most": most, "bytes": base64.b64encode(levels.tobytes()).decode()}
