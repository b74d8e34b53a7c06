"""A batched graph in numbers: counts over it, and its nodes as a table of names, children, signals and norms of states."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
import torch

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.graph import node_names, roots, tree_of_node
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import NO_OPERATOR, Checked
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import align

KEYS = ("tree", "node", "name", "kind", "children", "depth", "signals")  # of a row, besides the norms of its fields
OPERATOR = "operator"  # the kind of a node that is no leaf
SIGNAL = "signal/"  # prefix of the features that `propagate` writes for signals
LINES = 60
WIDEST = 60  # characters of a name
BAR = 40  # characters of the longest bar
CHARTS = {
    "operators": "operators",
    "leaf_texts": "leaves",
    "depths": "depth of the trees",
    "levels": "levels: nodes of one height, leaves first",
}

NodeRow = dict[str, Any]


def describe(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    *,
    limit: int = LINES,
    file: TextIO | None = None,
) -> list[NodeRow]:
    """Print the nodes of a batched graph as a table, one line per node, and return the table of `rows`.

    After `propagate`, or a model, has run on the graph, a line also has the mean of every recorded signal (push, pop, forget
    gates and the like) and the norms of the hidden state and of the rows of the stack. A dash: the node lacks the value.

    graph: a batch of trees, for example from `from_expressions` or a `TreeDataset`.
    signature: names the operators; mathematics by default.
    vocabulary: names the leaves. Needed only for a graph without the feature `text`, such as one built by hand.
    limit: how many nodes to print, 0 for all. The returned table always has all of them.
    file: where to print; standard output by default.

    Raises GraphError for a graph that is not a batch of trees or whose leaves have no names, ConfigurationError for a negative
    limit.

    >>> table = describe(from_expressions([Expression.parse("sin(x)")], vocabulary))
    tree  node  name  kind      children  depth
    0     0     sin   operator  1         1
    0     1     x     Symbol    -         0
    """
    if limit < 0:
        raise ConfigurationError(f"The limit {limit} is negative. Give the number of nodes to print, 0 for all.")
    table = rows(graph, signature, vocabulary)
    print(text(table, limit), file=file)
    return table


def rows(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    nodes: Sequence[int] | np.ndarray | None = None,
    shorten: bool = True,
) -> list[NodeRow]:
    """Return the table of `describe` without printing it. nodes: only these, in this order. shorten: see `node_names`.

    Keys of a row:
    - tree: the index of the node's tree, counted by roots; the last one for a node that several trees share.
    - node: its number in the graph.
    - name: the operator's name, or the leaf's text; a text over 64 bytes that is in no vocabulary ends in an ellipsis.
    - kind: `operator`, or the leaf's class.
    - children: node numbers in the order of slots.
    - depth: of the subtree below the node, 0 at a leaf.
    - signals: name -> the mean of its elements, or for a signal of shape (N, A, H) a list of means, one per child; None at
      leaves and at the root of an equation, where nothing is computed.
    - h: the norm of the hidden state, if the graph has the feature `h`.
    - stack, and other fields of real numbers (N, width), by name: a list of the norms of the rows, if the field is several
      times as wide as `h`; else a single norm.

    Raises GraphError for a graph that is not well formed, or whose nodes have no readable names.
    """
    checked, names = node_names(graph, signature, vocabulary, shorten=shorten)
    indices = np.arange(len(names)) if nodes is None else np.asarray(nodes, dtype=np.int64)
    computes_nothing = (checked.op == NO_OPERATOR) | (checked.op == signature.root_index)
    features = {
        name: values.detach()[torch.from_numpy(indices).to(values.device)].cpu().double()
        for name, values in sorted(graph.ndata.items())  # a file has them in another order
        if name.startswith(SIGNAL) or (name not in (*KEYS, "input") and values.dim() == 2 and values.is_floating_point())
    }
    means: dict[str, list] = {  # a number per node, or of (N, A, H) a list of A numbers
        name.removeprefix(SIGNAL): values[..., None].flatten(2 if values.dim() > 2 else 1).mean(-1).tolist()
        for name, values in features.items()
        if name.startswith(SIGNAL)
    }
    width, norms = (features["h"].shape[1] if "h" in features else 0), dict[str, list]()
    for name, values in sorted(features.items(), key=lambda entry: (entry[0] != "h", entry[0])):  # h is first
        if not name.startswith(SIGNAL):
            is_of_rows = name != "h" and width > 0 and values.shape[1] % width == 0 and values.shape[1] > 0
            norms[name] = (values.unflatten(1, (-1, width)) if is_of_rows else values).norm(dim=-1).tolist()
    columns = (indices, tree_of_node(checked)[indices], checked.heights[indices], checked.children[indices])
    table = []
    for i, (node, tree, depth, slots) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        children = [child for child in slots if child >= 0]
        kind, _, name = (OPERATOR, "", names[node]) if children else names[node].partition(":")
        signals = {}
        for signal, values in means.items():
            mean = None if computes_nothing[node] else values[i]
            signals[signal] = mean[: len(children)] if isinstance(mean, list) else mean
        row = {"tree": tree, "node": node, "name": name, "kind": kind, "children": children, "depth": depth}
        table.append({**row, "signals": signals, **{feature: values[i] for feature, values in norms.items()}})
    return table


def text(rows: Sequence[NodeRow], limit: int = LINES) -> str:
    """Return a table as aligned text of at most `limit` rows (0: all), with a last line for the number of omitted rows."""
    shown = rows[:limit] if limit else rows
    signals = list(rows[0]["signals"]) if rows else []
    norms = [name for name in rows[0] if name not in KEYS] if rows else []
    lines = [[*KEYS[:-1], *signals, *norms]]
    for row in shown:
        fixed = [row[name] for name in KEYS[:-1]]
        lines.append([cell(value) for value in (*fixed, *row["signals"].values(), *(row[name] for name in norms))])
    more = len(rows) - len(shown)
    return "\n".join([align(lines, "<"), *([f"... and {more:,} more node{'s' * (more > 1)}"] if more else [])])


def summarise(graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """Count the elements of a batched graph; trees are counted by roots.

    signature: names the operators. vocabulary: names the leaves of a graph without feature `text`.

    Returns counts of `graphs`, `nodes`, `edges` and `leaves`; `operators` and `leaf_texts`, name -> nodes, the most frequent
    first; `depths`, depth -> trees; `levels`, the number of nodes of every height, leaves first.
    Raises GraphError for a graph that is not well formed.
    """
    checked, names = node_names(graph, signature, vocabulary, shorten=True)
    is_leaf = checked.op == NO_OPERATOR
    depths = checked.heights[roots(graph).cpu().numpy()].tolist()
    operators = sorted(name for name, leaf in zip(names, is_leaf, strict=True) if not leaf)
    leaves = sorted(name.replace(":", " ", 1) for name, leaf in zip(names, is_leaf, strict=True) if leaf)
    return {
        "graphs": len(depths),
        "nodes": graph.num_nodes(),
        "edges": graph.num_edges(),
        "leaves": len(leaves),
        "operators": dict(Counter(operators).most_common()),
        "leaf_texts": dict(Counter(leaves).most_common()),
        "depths": dict(sorted(Counter(depths).items())),
        "levels": [len(level) for level in checked.levels],
    }


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return the counts of `summarise` as text, with a bar chart per kind of count."""
    totals = {**summary, "operators": summary["nodes"] - summary["leaves"]}
    lines = [", ".join(f"{name} {totals[name]}" for name in ("graphs", "nodes", "edges", "leaves", "operators"))]
    for kind, title in CHARTS.items():
        counts = dict(enumerate(summary[kind])) if kind == "levels" else summary[kind]
        largest = max(counts.values(), default=1)
        lines += [f"\n{title}"]
        lines += [f"  {cell(name):<16}{count:>8} {'#' * round(BAR * count / largest)}" for name, count in counts.items()]
    return "\n".join(lines)


def nodes_below(checked: Checked, tops: Iterable[int]) -> np.ndarray:
    """Return the ids of the nodes `tops` and of all nodes below them, sorted."""
    is_below = np.zeros(len(checked.op), dtype=bool)
    is_below[list(tops)] = True
    for level in reversed(checked.levels):
        children = checked.children[level[is_below[level]]]
        is_below[children[children >= 0]] = True
    return np.flatnonzero(is_below)


def cell(value: Any) -> str:
    """Return a value as text: numbers to four digits, names shortened, lists with blanks, `-` for None and an empty list."""
    if isinstance(value, list):
        return " ".join(map(cell, value)) or "-"
    if isinstance(value, str):
        name = value if len(value) <= WIDEST else f"{value[: WIDEST - 1]}…"
        return json.dumps(name, ensure_ascii=False)[1:-1]  # escapes line breaks
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
