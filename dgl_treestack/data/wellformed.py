"""Check that a DGL graph can be propagated, and find its equal subtrees. An error names the first wrong node and the remedy.

Nodes have the features `op`, `token` and `number`, edges run from child to parent and have the feature `slot`. A node may have
several parents: a shared subexpression. Nothing else on the graph is read.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import in_order_of_kinds
from dgl_treestack.data.vocabulary import NO_OPERATOR, NO_TOKEN
from dgl_treestack.errors import GraphError
from dgl_treestack.expression.operators import Signature

MOST_WRITTEN_OUT = 10_000_000  # maximum nodes of the trees of a graph, where a shared node counts once per use
LARGEST_KEY = 2**62  # several keys packed into one integer
FORMATS = ["coo", "csr", "csc"]  # of DGL, which answers some questions about a graph in one of them only

RESTORE = "If a file or `dgl.node_subgraph` lost the batch information, call `dgl_treestack.data.graph.restore_batch`."


class Checked(NamedTuple):
    """A well-formed graph of N nodes as arrays.

    op, token, number: (N,). children: (N, A) child in every slot, -1 where there is none; A is the largest arity, at least 1.
    heights: (N,) the depth of every node's subtree, 0 at leaves. levels: nodes by height, leaves first.
    """

    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    children: np.ndarray
    heights: np.ndarray
    levels: list[np.ndarray]


def check(graph: DGLGraph, signature: Signature, tokens: int | None = None) -> Checked:
    """Return the graph as arrays. tokens: rows of the embedding table, None if unknown.

    Raises GraphError for a graph that is not well formed.
    """
    if not isinstance(graph, DGLGraph) or len(graph.ntypes) != 1 or len(graph.etypes) != 1 or graph.is_block:
        raise GraphError("A batch of trees is a DGLGraph with one type of node and one type of edge.")
    op, token = (_feature(graph, "ndata", name, integer=True) for name in ("op", "token"))
    number, slot = _feature(graph, "ndata", "number"), _feature(graph, "edata", "slot", integer=True)
    child, parent = (
        nodes.cpu().numpy().astype(np.int64, copy=False) for nodes in answer(lambda graph: graph.edges(order="eid"), graph)
    )
    for wrong, fault in _rules(op, token, number, (child, parent, slot), signature, tokens):
        if wrong.any():
            node, more = int(wrong.argmax()), int(wrong.sum()) - 1
            raise GraphError(f"Node {node} {fault(node)}{f' So are {more} more nodes.' if more else ''}")
    children = np.full((len(op), int(slot.max(initial=0)) + 1), -1, dtype=np.int64)
    children[parent, slot] = child
    try:
        levels = [nodes.numpy() for nodes in answer(_dgl.topological_nodes_generator, graph)] if len(op) else []
    except _dgl.DGLError:
        from scipy.sparse import coo_array  # here, since only this error needs it
        from scipy.sparse.csgraph import connected_components

        edges = coo_array((np.ones(len(child)), (child, parent)), shape=(len(op), len(op)))
        _, component = connected_components(edges, connection="strong")
        is_in_cycle = (np.bincount(component) > 1)[component]
        is_in_cycle[child[child == parent]] = True
        node = int(is_in_cycle.argmax())
        raise GraphError(f"Node {node} is below itself: the graph has a cycle through it. Remove one of its edges.") from None
    heights = np.zeros(len(op), dtype=np.int64)
    for height, level in enumerate(levels):
        heights[level] = height
    return Checked(op, token, number.astype(np.float64, copy=False), children, heights, levels)


def answer(question: Callable[[DGLGraph], Any], graph: DGLGraph) -> Any:
    """What DGL answers about a graph, asked again in all formats if those that the graph is restricted to have no answer."""
    try:
        return question(graph)
    except _dgl.DGLError:
        return question(graph.formats(FORMATS))


def check_one_root(graph: DGLGraph) -> None:
    """Raise GraphError unless every tree of a batch, by its batch information, has one node without parents."""
    sizes, fault = graph.batch_num_nodes().cpu().numpy(), ""
    if sizes.sum() != graph.num_nodes() or (sizes < 0).any():
        fault = f"Its batch information counts {sizes.sum()} nodes of {graph.num_nodes()}. {RESTORE}"
    roots = np.flatnonzero(answer(DGLGraph.out_degrees, graph).cpu().numpy() == 0)
    tree_of_root = np.searchsorted(np.cumsum(sizes), roots, side="right")
    count = np.bincount(tree_of_root, minlength=len(sizes))
    for tree in () if fault else np.flatnonzero(count != 1)[: 1 if graph.num_nodes() or len(sizes) > 1 else 0]:
        shown = ", ".join([*map(str, roots[tree_of_root == tree][:5]), *(["..."] if count[tree] > 5 else [])])
        fault = f"has {count[tree]} roots (nodes {shown}); one is needed. Remove what does not belong to it. {RESTORE}"
        fault = f"Tree {tree} of the batch {fault if sizes[tree] else 'has no nodes. Leave it out.'}"
    if fault:
        raise GraphError(fault)


def numbered_subtrees(nodes: Checked, signature: Signature) -> np.ndarray:
    """Return `subtree` (N,) as in a `Forest`, by hash-consing, height by height.

    Leaves are equal if their tokens and numbers are equal, operators if the operators and their children's subtrees are.
    """
    op, children, count = nodes.op, nodes.children, 0
    subtree = np.zeros(len(op), dtype=np.int64)
    for height, level in enumerate(nodes.levels):
        if height:
            child = children[level]
            keys = [op[level], *np.where(child < 0, 0, subtree[child] + 1).T]
        else:
            keys = [nodes.token[level] + 1, np.unique(nodes.number[level], return_inverse=True)[1]]
        packed, bound = keys[0], int(keys[0].max()) + 1  # all keys in one integer, as digits in mixed radix
        for key in keys[1:]:
            width = int(key.max()) + 1
            if bound > LARGEST_KEY // width:
                packed, bound = np.unique(packed, return_inverse=True)[1], len(packed)
            packed, bound = packed * width + key, bound * width
        subtree[level] = count + np.unique(packed, return_inverse=True)[1]
        count = int(subtree[level].max()) + 1
    return in_order_of_kinds(subtree, op, nodes.heights, (children >= 0).sum(1), signature)


def written_out_sizes(children: np.ndarray, level: np.ndarray, tops: np.ndarray) -> np.ndarray:
    """(N,) nodes of the subtree of every node, where a shared node counts once per use.

    children: (N, A). level: (N,) higher at a node than at its children. Raises GraphError if the subtrees of the nodes `tops`
    are together larger than `MOST_WRITTEN_OUT`.
    """
    size = np.ones(len(children))
    order = np.argsort(level, kind="stable")
    for nodes in np.split(order, np.flatnonzero(np.diff(level[order])) + 1)[1:]:
        child = children[nodes]
        size[nodes] = np.minimum(1 + np.where(child >= 0, size[child], 0).sum(1), 2.0**50)
    if size[tops].sum() > MOST_WRITTEN_OUT:
        raise GraphError(f"The trees have over {MOST_WRITTEN_OUT:,} nodes once shared ones are written out. Take fewer.")
    return size.astype(np.int64)


def _feature(graph: DGLGraph, home: str, name: str, *, integer: bool = False) -> np.ndarray:
    """A feature with one number per node (home `ndata`) or edge (`edata`); integer: as int64. Raises GraphError."""
    feature, features = f"graph.{home}[{name!r}]", getattr(graph, home)
    values: Tensor | None = features.get(name)
    if values is None:
        feature, fault = f"There is no {feature}.", "Set it, as `dgl_treestack.data.graph.build` does."
    elif values.dim() != 1:
        fault = f"has the shape {tuple(values.shape)}; it holds one number each."
    elif values.is_complex():
        fault = f"is of type {values.dtype}; it holds real numbers."
    elif integer and (values.is_floating_point() or values.dtype == torch.bool):
        fault = f"is of type {values.dtype}; it holds whole numbers, torch.int64."
    elif values.requires_grad:
        fault = "requires a gradient; numbers are data. What is learned is external `input`."
    else:
        array: np.ndarray = (values.double() if values.is_floating_point() else values).cpu().numpy()
        return array.astype(np.int64, copy=False) if integer else array
    raise GraphError(f"{feature} {fault}")


def _rules(
    op: np.ndarray, token: np.ndarray, number: np.ndarray, edges: Sequence[np.ndarray], signature: Signature, tokens: int | None
) -> Iterator[tuple[np.ndarray, Callable[[int], str]]]:
    """Yield (N,) which nodes break a rule, and the words for one of them. Later rules rely on earlier ones."""
    child, parent, slot = edges
    arity = np.bincount(parent, minlength=len(op))
    language, names, root, is_leaf = signature.name, signature.names, signature.root, op == NO_OPERATOR
    codes = f"{language!r}: 0 to {len(names) - 1}, or -1 at a leaf."
    yield (op < NO_OPERATOR) | (op >= len(names)), lambda node: f"has op = {op[node]}, which is no operator of {codes}"
    highest = np.iinfo(np.int64).max if tokens is None else tokens
    lowest = 0 if signature.words else NO_TOKEN  # words have no numbers
    rows = "row from 0 on" if tokens is None else f"row of the vocabulary: 0 to {tokens - 1}"
    rows += "." if signature.words else ", or -1 where `number` is read."
    yield is_leaf & ((token < lowest) | (token >= highest)), lambda node: f"has token = {token[node]}, which is no {rows}"
    remedy = "edges run from child to parent. Give it an operator."
    yield is_leaf & (arity > 0), lambda _: f"is a leaf (op = -1) and has children: {remedy}"
    wrong, finite = is_leaf & (token == NO_TOKEN) & ~np.isfinite(number), "Give it a finite number, or the token of a symbol."
    yield wrong, lambda _: f"is a leaf with token = -1, whose number is not finite. {finite}"
    is_child = np.bincount(child, minlength=len(op)) > 0
    yield is_child & (op == signature.root_index), lambda _: f"is {root!r} and has a parent; {root!r} stands at a root only."
    outside = (slot < 0) | (slot >= arity[parent])
    place = (arity.cumsum() - arity)[parent] + np.where(outside, 0, slot)  # one per node and slot
    uses = np.bincount(place[~outside], minlength=len(child))
    wrong = np.bincount(parent[outside | (uses[place] > 1)], minlength=len(op)) > 0
    yield (
        wrong,
        lambda node: (
            f"({names[op[node]]}) has children in slots {str(sorted(slot[parent == node].tolist()))[1:-1]}; "
            f"the slots of {arity[node]} children are 0 to {arity[node] - 1}, each once."
        ),
    )
    arities = [operator.arity or -1 for operator in signature.operators]  # -1: any number from 1 on
    takes = ["at least 1" if count < 0 else count for count in arities]
    expected = np.array(arities or [0])[op]
    wrong = ~is_leaf & ((arity == 0) | ((expected >= 0) & (arity != expected)))
    yield wrong, lambda node: f"has {arity[node]} children; {names[op[node]]!r} of {language!r} takes {takes[op[node]]}."
