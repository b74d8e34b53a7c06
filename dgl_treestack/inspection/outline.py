"""Equations with what a model did in them, as text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dgl_treestack.inspection.drawing import label
from dgl_treestack.inspection.traces import Trace, difference

SHADES = " ▁▂▃▄▅▆▇█"
KEPT = 40  # columns for the tree; a deeper one pushes its numbers to the right


def outline(traces: Mapping[str, Trace]) -> str:
    """One equation as a tree with a line per node: push, pop and no-op of every model, and the lengths of its stack's rows."""
    first = next(iter(traces.values()))
    parts = [str(first.tree), *(f"  {name}: {verdict(trace)}" for name, trace in traces.items())]
    lines = [f"{branch}{label(first.tree, node)}" for node, branch in _branches(first)]
    width = max(KEPT, *(len(line) for line in lines))
    apart = _most_apart(list(traces.values()))
    longest = {id(trace): _longest_row(trace) for trace in traces.values()}
    for node, line in enumerate(lines):
        cells = [cell for trace in traces.values() if (cell := _cell(trace, node, longest[id(trace)]))]
        mark = "  <- most apart" if node == apart else ""
        parts.append(f"{line:<{width}}  {'  |  '.join(cells)}{mark}".rstrip())
    return "\n".join(parts)


def verdict(trace: Trace) -> str:
    """What a model says of an equation, and whether it is right."""
    row = trace.record
    said = f"score {row['score']:+.3f}" if row["score"] is not None else "no score"
    if row.get("task") == "verification" and row["score"] is not None:
        said += f", P(holds) {probability(row['score']):.3f}"
    judged = {True: ", right", False: ", wrong", None: ""}[row["correct"]]
    sides = "".join(f", {name} {value:.2f}" for name, value in trace.sides().items() if name in ("dot", "cosine"))
    return f"{said}{judged}{sides}"


def probability(score: float) -> float:
    """sigma(score)."""
    return float(1 / (1 + np.exp(-np.clip(score, -700, 700))))


def verdicts(traces: Mapping[str, Sequence[Trace]]) -> str:
    """How many equations every combination of right and wrong has."""
    combined = zip(*([trace.record["correct"] for trace in own] for own in traces.values()), strict=True)
    counts = Counter(row for row in combined if None not in row)
    total = sum(counts.values())
    lines = [f"{total} equations with labels, by who is right ({', '.join(traces)}):"]
    for row, count in sorted(counts.items(), reverse=True):
        said = ", ".join("right" if right else "wrong" for right in row)
        lines.append(f"  {said:<{8 * len(row)}} {count:>7}  {100 * count / total:5.1f} %")
    return "\n".join(lines)


def _branches(trace: Trace) -> Iterator[tuple[int, str]]:
    """Every node in pre-order with the lines before it."""
    pending = [(0, "", "")]
    while pending:
        node, own, below = pending.pop()
        yield node, own
        children = trace.tree.children(node)
        for child in reversed(children):
            last = child == children[-1]
            pending.append((child, below + ("└ " if last else "├ "), below + ("  " if last else "│ ")))


def _longest_row(trace: Trace) -> float:
    return 0.0 if trace.stack is None else float(np.linalg.norm(trace.stack, axis=2).max(initial=0.0))


def _cell(trace: Trace, node: int, longest: float) -> str:
    gates = {name: values[node] for name, values in trace.actions.items()}
    if not gates or np.isnan(next(iter(gates.values()))):
        return ""
    said = " ".join(f"{name} {value:.2f}" for name, value in gates.items())
    return said if trace.stack is None else f"{said} [{_bars(np.linalg.norm(trace.stack[node], axis=1), longest)}]"


def _bars(lengths: np.ndarray, longest: float) -> str:
    """The lengths of rows, the top row first, a full block for the longest of the tree."""
    places = np.ceil(lengths / max(longest, 1e-30) * (len(SHADES) - 1)).astype(int)
    return "".join(SHADES[place] for place in places)


def _most_apart(traces: Sequence[Trace]) -> int | None:
    """The node at which the first two models that have actions differ most."""
    acting = [trace for trace in traces if trace.actions]
    if len(acting) < 2:
        return None
    gaps = difference(acting[0], acting[1])
    return None if np.isnan(gaps).all() else int(np.nanargmax(gaps))
