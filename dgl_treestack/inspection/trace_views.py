"""Equations with the values that models compute in them: as text, as a picture, as a page to browse."""

import base64
import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dgl_treestack import atomic
from dgl_treestack.data.formats import Example
from dgl_treestack.expression.networkx import write
from dgl_treestack.inspection.drawing import EDGES, draw, label, layout
from dgl_treestack.inspection.traces import Trace, difference
from dgl_treestack.plots._style import name_of

SHADES = " ▁▂▃▄▅▆▇█"
TREE_WIDTH = 40  # columns for the tree; a deeper one moves the numbers to the right

COLOURS = {"push": "#0072B2", "pop": "#E69F00", "noop": "#9a9a9a"}
OTHER_COLOURS = ("#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # of actions with other names
SPACING = 1.3  # inches from level to level
# Offsets below a node and heights of its bar and its heat map, in levels; the width of both, in columns.
BAR, MAP, WIDTH = (0.2, 0.07), (0.29, 0.34), 0.84
PALE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}  # behind numbers
ANSWER = 0.31  # distance of an answer above its node, in levels

TEMPLATE = Path(__file__).with_name("page.html")
MARK = "{{data}}"  # the template's placeholder for the data
# Bytes in base64 take 1.3 characters a number; as text in JSON they would take up to five.
LEVELS = 127  # heat maps of the page have whole numbers from -127 to 127


def outline(traces: Mapping[str, Trace]) -> str:
    """Return one equation as a tree with a line per node, and the actions of every model in that line.

    traces: model -> its trace of the equation. A line shows the label of the node, if nodes have labels, the answer of the
    model if it has one for the node, the actions and, as blocks, the norms of the rows of every stack. The node at which
    the first two models with actions differ most is marked.
    """
    tree = next(iter(traces.values())).tree
    acting = [trace for trace in traces.values() if trace.actions]
    gaps = difference(acting[0], acting[1]) if len(acting) > 1 else np.full(tree.size, np.nan)
    most_apart = None if np.isnan(gaps).all() else int(np.nanargmax(gaps))
    labels = next(iter(traces.values())).labels or [None] * tree.size
    branches, pending = [], [(0, "", "")]  # nodes in pre-order, with the lines that connect them to their ancestors
    while pending:
        node, branch, branch_of_children = pending.pop()
        of_node = f" = {labels[node]}" if labels[node] is not None else ""
        branches.append(branch + label(tree.names[node], tree.texts[node], tree.signature) + of_node)
        children = tree.children(node)
        for child in reversed(children):
            corner, continued = ("└ ", "  ") if child == children[-1] else ("├ ", "│ ")
            pending.append((child, branch_of_children + corner, branch_of_children + continued))
    width = max(TREE_WIDTH, *(len(branch) for branch in branches))
    cells_of_node: list[list[str]] = [[] for _ in branches]
    for trace in traces.values():
        blocks = [""] * tree.size  # a stack is a block per row, the top row first; a full one is the largest norm in the tree
        for stack in trace.stacks.values():
            norms = np.linalg.norm(stack, axis=2)
            levels = np.ceil(norms / max(float(norms.max(initial=0.0)), 1e-30) * (len(SHADES) - 1)).astype(int)
            blocks = [
                f"{before} [{''.join(SHADES[level] for level in row)}]" for before, row in zip(blocks, levels, strict=True)
            ]
        for node, block in enumerate(blocks):  # a cell, such as `push 0.72 pop 0.06 noop 0.22 [█▂   ]`
            means = {name: values[node] for name, values in trace.actions.items()}
            has_actions = bool(means) and not np.isnan(next(iter(means.values())))
            actions = " ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + block if has_actions else ""
            answer = trace.answers.get(node, {"predicted": "", "correct": None})
            wrong = "(wrong)" if answer["correct"] is False else ""
            cells_of_node[node].append(" ".join(filter(None, (answer["predicted"], wrong, actions))))
    lines = [str(tree), *(f"  {name}: {score_text(trace)}" for name, trace in traces.items())]
    for node, branch in enumerate(branches):
        cells = "  |  ".join(filter(None, cells_of_node[node]))
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


def draw_trace(name: str, trace: Trace) -> Figure:
    """Draw a model's actions and stacks in an equation.

    Below every operator, a bar shows the shares of the actions, such as push, pop and no-op, with the numbers of `outline`
    under a heat map of the rows of the stack, the top row on top, from blue for negative to red for positive numbers; several
    stacks are side by side. The root of an equation has neither, since it has no state. Above a node is the model's answer, in
    red if it is wrong, where the task has answers at nodes.

    name: of the model in configurations. Raises DataError for a tree of more than 500 nodes.
    """
    tree = trace.tree
    figure = draw(tree, f"{tree}\n{name_of(name)}: {score_text(trace)}", spacing=SPACING)
    (axes,) = figure.axes
    limits = axes.get_xlim(), axes.get_ylim()
    largest = max((float(np.abs(stack).max(initial=1e-9)) for stack in trace.stacks.values()), default=0.0)
    groups: dict[str, list[str]] = {}  # of actions, by the stack that their names begin with
    for action in trace.actions:
        groups.setdefault(action.rpartition("_")[0], []).append(action)
    cycle = itertools.cycle(OTHER_COLOURS)
    colour_of = {action: COLOURS.get(action.rpartition("_")[2]) or next(cycle) for action in trace.actions}
    colours: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    for node, (x, y) in layout(write(tree)).items():
        if "node" in trace.answers.get(node, {}):
            colour = "#b22222" if trace.answers[node]["correct"] is False else "#2b6b2b"
            answer = trace.answers[node]["predicted"]
            axes.text(x, y - ANSWER, answer, ha="center", va="center", fontsize=7, color=colour, fontweight="bold")
        if not tree.children(node) or (node == 0 and tree.names[0] == tree.signature.root):
            continue
        for i, actions in enumerate(groups.values()):
            start, share = x + WIDTH * (i / len(groups) - 0.5), WIDTH / len(groups)
            total = sum(float(trace.actions[action][node]) for action in actions) or 1.0
            for action in actions:
                width = share * float(trace.actions[action][node]) / total
                place = (start, y + BAR[0])
                axes.add_patch(Rectangle(place, width, BAR[1], color=colour_of[action], linewidth=0, zorder=3))
                start += width
            means = " ".join(f"{trace.actions[action][node]:.2f}" for action in actions)
            place = x + WIDTH * ((i + 0.5) / len(groups) - 0.5), y + MAP[0] + MAP[1] + 0.01
            axes.text(*place, means, ha="center", va="top", fontsize=5, zorder=EDGES + 1, bbox=PALE)
        top, bottom, width = y + MAP[0], y + MAP[0] + MAP[1], WIDTH / max(1, len(trace.stacks))
        for i, stack in enumerate(trace.stacks.values()):
            left = x - WIDTH / 2 + i * width
            extent = (left, left + width, bottom, top)
            axes.imshow(stack[node], extent=extent, aspect="auto", interpolation="nearest", zorder=3, **colours)
            axes.add_patch(Rectangle((left, top), width, bottom - top, fill=False, linewidth=0.5, zorder=4))
    axes.set_xlim(*limits[0])
    axes.set_ylim(*limits[1])
    if trace.actions:
        patches = [Patch(color=colour, label=action.replace("noop", "no-op")) for action, colour in colour_of.items()]
        title = "shares, in this order below a node"
        figure.legend(handles=patches, title=title, loc="outside lower center", ncols=3, fontsize=7, title_fontsize=7)
    if axes.images:
        scale = axes.inset_axes((0.02, 0.97, min(0.3, 1.5 / figure.get_figwidth()), 0.015))
        figure.colorbar(axes.images[0], cax=scale, orientation="horizontal")
        scale.set_xlabel("entry of a stack", fontsize=7)
        scale.tick_params(labelsize=6)
    return figure


def write_page(path: Path, title: str, examples: Sequence[Example], traces: Mapping[str, Sequence[Trace]]) -> None:
    """Write one self-contained HTML page, without network or server, to browse equations and what models compute in them.

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
        models = {}
        for name, trace in trace_of_model.items():
            gates, rows = gates_and_norms(trace)
            models[name] = {
                **{key: trace.record[key] for key in ("score", "correct", "task")},
                "answers": answers(trace),
                "sides": {side: round(value, 4) for side, value in trace.sides().items()},
                "gates": gates,
                "actions": list(trace.actions),
                "rows": rows,
                "stacks": {stack: _heat_map(values) for stack, values in trace.stacks.items()},
                "h": _heat_map(trace.h[:, None]),
            }
        text, depth = str(example.equation), example.equation.depth
        about = {"id": example.id, "text": text, "depth": depth, "label": example.label, "labels": list(example.labels)}
        equations.append({**about, "fold": example.fold, "nodes": nodes, "models": models})
    data = {"title": title, "models": list(traces), "equations": equations}
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")  # no text can close a tag
    atomic.write_text(path, TEMPLATE.read_text().replace(MARK, text))


def answers(trace: Trace) -> list[str | None]:
    """Return the class that the model answers at every node, None where it answers none; empty without any answer."""
    return [trace.answers.get(node, {}).get("predicted") for node in range(trace.tree.size)] if trace.answers else []


def gates_and_norms(trace: Trace) -> tuple[dict[str, list], dict[str, list[list[float]]]]:
    """Return gates and norms of stack rows of every node for JSON, to four decimals.

    gates: name -> a mean per node, or a list of means per child; None for a node without gates. norms: stack -> per node a
    list, the top row first.
    """
    gates = {}
    for name, values in trace.gates.items():
        means = [None if math.isnan(mean) else round(mean, 4) for mean in values.astype(float).flatten().tolist()]
        gates[name] = np.array(means, dtype=object).reshape(values.shape).tolist()
    norms = {name: np.linalg.norm(stack, axis=2).astype(float).round(4).tolist() for name, stack in trace.stacks.items()}
    return gates, norms


def _heat_map(values: np.ndarray) -> dict[str, Any]:
    """Return (N, rows, columns) as signed bytes in base64; `most` is the absolute value of 127."""
    most = float(np.abs(values).max(initial=0.0))
    levels = np.zeros(values.shape, np.int8) if most == 0 else np.rint(values / most * LEVELS).astype(np.int8)
    rows, columns = values.shape[1:]
    return {"rows": rows, "columns": columns, "most": most, "bytes": base64.b64encode(levels.tobytes()).decode()}
