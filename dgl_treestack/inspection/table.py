"""The nodes of a batched graph as a table: what stands where, and what a model left there."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import NO_OPERATOR
from dgl_treestack.data.graph import node_names, tree_of_node
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import Checked, check
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import MATH, Signature

OPERATOR = "operator"  # the kind of a node that is no leaf
SIGNAL = "signal/"  # how the features begin that `propagate` leaves for signals
LINES = 60

Row = dict[str, Any]


def describe(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    *,
    limit: int = LINES,
    file: TextIO | None = None,
) -> list[Row]:
    """Print the nodes of a graph as a table, and return all rows: see `rows`.

    limit: the most nodes that are printed, 0 for all. file: standard output when it is None.
    Raises what `rows` raises, and ConfigurationError for a negative limit.

    >>> table = describe(from_expressions([Expression.parse("sin(x)")], vocabulary))
    tree  node  name  kind      children  depth
    0     0     sin   operator  1         1
    0     1     x     Symbol    -         0
    """
    if limit < 0:
        raise ConfigurationError(f"The limit {limit} is negative. Give the number of nodes to print, 0 for all.")
    result = rows(graph, signature, vocabulary)
    print(text(result, limit), file=file)
    return result


def rows(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    nodes: Sequence[int] | np.ndarray | None = None,
) -> list[Row]:
    """A row per node. vocabulary: names the leaves of a graph without feature `text`. nodes: only these, in this order.

    tree: counted by roots; of a node in several trees, the last of them. node: its number. name: of an operator, or a leaf's
    text. kind: `operator`, or the leaf's class. children: by slot. depth: of the subtree, 0 at a leaf.
    signals: name -> the mean of its elements, or a list of them per child for signals (N, A, H); None at leaves and at the root
    of an equation, where nothing is computed.
    h: its norm; stack: the norms of its rows, or of all where its width is no multiple of that of h. Both are absent where the
    graph has no such feature.

    Raises GraphError for a graph that is not well formed, or whose nodes have no readable names.
    """
    names = node_names(graph, signature, vocabulary)
    checked = check(graph, signature)
    places = np.arange(len(names)) if nodes is None else np.asarray(nodes, dtype=np.int64)
    silent = (checked.op == NO_OPERATOR) | (checked.op == signature.index.get(signature.root or "", NO_OPERATOR))
    columns = [tree_of_node(checked), places, checked.children, checked.heights, silent]
    columns = [column if column is places else column[places] for column in columns]
    features = {
        name: values.detach()[torch.from_numpy(places).to(values.device)].cpu().double()
        for name, values in sorted(graph.ndata.items())  # a file has them in another order
        if name in ("h", "stack") or name.startswith(SIGNAL)
    }
    signals = {name.removeprefix(SIGNAL): _means(values) for name, values in features.items() if name.startswith(SIGNAL)}
    norms = _norms(features)
    result = []
    for i, (tree, node, below, depth, is_silent) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        children = [child for child in below if child >= 0]
        own_signals = {name: None if is_silent else _of_children(means[i], children) for name, means in signals.items()}
        row = {"tree": tree, "node": node, **_name_and_kind(names[node], bool(children)), "children": children, "depth": depth}
        result.append({**row, "signals": own_signals, **{name: values[i] for name, values in norms.items()}})
    return result


def text(rows: Sequence[Row], limit: int = LINES) -> str:
    """The rows as an aligned table of at most `limit` lines (0: all), and a line that says how many there are more."""
    shown = rows[:limit] if limit else rows
    signals = list(rows[0]["signals"]) if rows else []
    norms = [name for name in ("h", "stack") if rows and name in rows[0]]
    lines = [["tree", "node", "name", "kind", "children", "depth", *signals, *norms]]
    for row in shown:
        start = [row[name] for name in ("tree", "node", "name", "kind", "children", "depth")]
        lines.append([_cell(value) for value in (*start, *row["signals"].values(), *(row[name] for name in norms))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = len(rows) - len(shown)
    return "\n".join([*table, *([f"... and {more:,} more node{'s' * (more > 1)}"] if more else [])])


def nodes_below(checked: Checked, tops: Iterable[int]) -> np.ndarray:
    """Some nodes and all that is below them, in order."""
    is_below = np.zeros(len(checked.op), dtype=bool)
    is_below[list(tops)] = True
    for frontier in reversed(checked.frontiers):
        below = checked.children[frontier[is_below[frontier]]]
        is_below[below[below >= 0]] = True
    return np.flatnonzero(is_below)


def _name_and_kind(name: str, is_operator: bool) -> dict[str, str]:
    kind, _, written = (OPERATOR, "", name) if is_operator else name.partition(":")
    return {"name": written, "kind": kind}


def _means(values: Tensor) -> list:
    """Per node, a number, or of a signal (n, A, H) a list of them per child."""
    per_child = values.dim() > 2
    means: list = (
        (values.flatten(2).mean(2) if per_child else values.reshape(len(values), -1).mean(1)).tolist() if len(values) else []
    )
    return means


def _of_children(mean: float | list[float], children: Sequence[int]) -> float | list[float]:
    return mean[: len(children)] if isinstance(mean, list) else mean


def _norms(features: Mapping[str, Tensor]) -> dict[str, list]:
    """`h`, and `stack` by rows where it is made of rows as wide as h."""
    flat = {
        name: features[name].flatten(1) if features[name].dim() > 1 else features[name][:, None]
        for name in ("h", "stack")
        if name in features
    }
    result: dict[str, list] = {name: values.norm(dim=1).tolist() for name, values in flat.items()}
    width = flat["h"].shape[1] if "h" in flat else 0
    if "stack" in flat and width and flat["stack"].shape[1] % width == 0:
        result["stack"] = flat["stack"].unflatten(1, (-1, width)).norm(dim=2).tolist()
    return result


def _cell(value: Any) -> str:
    """A value in a table: numbers to four digits, lists with blanks between, `-` where there is nothing."""
    if isinstance(value, list):
        return " ".join(map(_cell, value)) or "-"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)[1:-1]  # no line breaks
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
