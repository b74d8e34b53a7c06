"""Equations with the values that models compute in them, as text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dgl_treestack.expression import Expression
from dgl_treestack.inspection.drawing import label
from dgl_treestack.inspection.traces import Trace, difference

SHADES = " ▁▂▃▄▅▆▇█"
TREE_WIDTH = 40  # columns for the tree; a deeper one moves the numbers to the right


def outline(traces: Mapping[str, Trace]) -> str:
    """Return one equation as a tree with a line per node, and the actions of every model in that line.

    traces: model -> its trace of the equation. A line shows the label of the node, if nodes have labels, the answer of the
    model if it has one for the node, push, pop and no-op and, as blocks, the norms of the rows of the stack. The node at which
    the first two models with actions differ most is marked.
    """
    tree = next(iter(traces.values())).tree
    acting = [trace for trace in traces.values() if trace.actions]
    gaps = difference(acting[0], acting[1]) if len(acting) > 1 else np.full(tree.size, np.nan)
    most_apart = None if np.isnan(gaps).all() else int(np.nanargmax(gaps))
    labels = [f" = {entry}" if entry is not None else "" for entry in next(iter(traces.values())).labels or [None] * tree.size]
    branches = [
        branch + label(tree.names[node], tree.texts[node], tree.signature) + labels[node] for node, branch in _branches(tree)
    ]
    width = max(TREE_WIDTH, *(len(branch) for branch in branches))
    columns = [_node_texts(trace) for trace in traces.values()]
    lines = [str(tree), *(f"  {name}: {score_text(trace)}" for name, trace in traces.items())]
    for node, branch in enumerate(branches):
        cells = "  |  ".join(column[node] for column in columns if column[node])
        lines.append(f"{branch:<{width}}  {cells}{'  <- most apart' if node == most_apart else ''}".rstrip())
    return "\n".join(lines)


def score_text(trace: Trace) -> str:
    """Return as text a model's score of an equation, whether it is right, and dot product and cosine of the sides."""
    score, correct = trace.record["score"], trace.record["correct"]
    text = f"score {score:+.3f}" if score is not None else f"answer {trace.record.get('predicted', 'unknown')}"
    if trace.record.get("task") == "verification" and score is not None:
        text += f", P(holds) {1 / (1 + np.exp(-np.clip(score, -700, 700))):.3f}"
    if correct is not None:
        text += ", right" if correct else ", wrong"
    return text + "".join(f", {name} {value:.2f}" for name, value in trace.sides().items() if name in ("dot", "cosine"))


def answer_text(trace: Trace, node: int) -> str:
    """Return the class that a model answers at a node, marked if it is wrong; empty if it answers none there."""
    if node not in trace.answers:
        return ""
    return trace.answers[node]["predicted"] + (" (wrong)" if trace.answers[node]["correct"] is False else "")


def correctness_table(traces: Mapping[str, Sequence[Trace]]) -> str:
    """Return as text the number of labelled equations for every combination of right and wrong models.

    traces: model -> its traces, of the same equations for every model.
    """
    correct_of_models = ([trace.record["correct"] for trace in traces_of_model] for traces_of_model in traces.values())
    counts = Counter(row for row in zip(*correct_of_models, strict=True) if None not in row)
    total = sum(counts.values())
    lines = [f"{total} equations with labels, by who is right ({', '.join(traces)}):"]
    for row, count in sorted(counts.items(), reverse=True):
        text = ", ".join("right" if right else "wrong" for right in row)
        lines.append(f"  {text:<{8 * len(row)}} {count:>7}  {100 * count / total:5.1f} %")
    return "\n".join(lines)


def _branches(tree: Expression) -> Iterator[tuple[int, str]]:
    """Yield every node in pre-order with the lines that connect it to its ancestors."""
    pending = [(0, "", "")]
    while pending:
        node, branch, branch_of_children = pending.pop()
        yield node, branch
        children = tree.children(node)
        for child in reversed(children):
            corner, continued = ("└ ", "  ") if child == children[-1] else ("├ ", "│ ")
            pending.append((child, branch_of_children + corner, branch_of_children + continued))


def _node_texts(trace: Trace) -> list[str]:
    """Return per node its answer, actions and stack as text, such as `push 0.72 pop 0.06 noop 0.22 [█▂   ]`, or "" without.

    The stack is a block per row, the top row first; a full block is the largest norm in the tree.
    """
    stacks = [""] * trace.tree.size
    if trace.stack is not None:
        norms = np.linalg.norm(trace.stack, axis=2)
        levels = np.ceil(norms / max(float(norms.max(initial=0.0)), 1e-30) * (len(SHADES) - 1)).astype(int)
        stacks = [f" [{''.join(SHADES[level] for level in row)}]" for row in levels.tolist()]
    texts = []
    for node, stack in enumerate(stacks):
        means = {name: values[node] for name, values in trace.actions.items()}
        has_actions = bool(means) and not np.isnan(next(iter(means.values())))
        actions = " ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + stack if has_actions else ""
        texts.append(" ".join(filter(None, (answer_text(trace, node), actions))))
    return texts
