"""What a DGL graph must be to be propagated, with one error that names the first node at fault, the rule and the remedy.

Nodes have the features `op`, `token` and `number`, edges run from child to parent and have the feature `slot`. A node may have
several parents: a shared subexpression. Nothing else on the graph is read, so nothing else can be wrong.
"""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import NO_OPERATOR, NO_TOKEN
from dgl_treestack.errors import GraphError
from dgl_treestack.expression.operators import Signature

MOST_WRITTEN_OUT = 10_000_000  # nodes of the trees that a graph stands for, where they are written out


RESTORE = "If a file or `dgl.node_subgraph` lost which nodes are of which tree, call `dgl_treestack.data.graph.restore_batch`."


class Checked(NamedTuple):
    """A well-formed graph of N nodes as arrays. op, token, number: (N,). children: (N, A) the child in every slot, -1 where
    there is none; A is the largest arity, at least 1. frontiers: nodes by height, leaves first."""

    op: np.ndarray
    token: np.ndarray
    number: np.ndarray
    children: np.ndarray
    frontiers: list[np.ndarray]

    @property
    def heights(self) -> np.ndarray:
        """(N,) the depth of every node's subtree, 0 at leaves."""
        heights = np.zeros(len(self.op), dtype=np.int64)
        for height, frontier in enumerate(self.frontiers):
            heights[frontier] = height
        return heights


def check(graph: DGLGraph, signature: Signature, tokens: int | None = None) -> Checked:
    """The graph as arrays. tokens: rows of the embedding table, None where they are not known. Raises GraphError."""
    if not isinstance(graph, DGLGraph) or len(graph.ntypes) != 1 or len(graph.etypes) != 1 or graph.is_block:
        raise GraphError("A batch of trees is a DGLGraph with one type of node and one type of edge.")
    op, token = _whole_numbers(graph, "ndata", "op"), _whole_numbers(graph, "ndata", "token")
    number, slot = _column(graph, "ndata", "number"), _whole_numbers(graph, "edata", "slot")
    if graph.ndata["number"].requires_grad:
        raise GraphError("graph.ndata['number'] requires a gradient; numbers are data. What is learned is external `input`.")
    child, parent = _ends(graph)
    arity = np.bincount(parent, minlength=len(op))
    _check_operators(op, arity, signature)
    _check_leaves(op, token, number, tokens)
    _check_slots(op, child, parent, slot, arity, signature)
    _check_arities(op, arity, signature)
    if signature.root is not None:
        root = signature.index[signature.root]
        _refuse(child[op[child] == root], f"is {signature.root!r} and has a parent; {signature.root!r} stands at a root only.")
    children = np.full((len(op), int(arity.max(initial=1))), -1, dtype=np.int64)
    children[parent, slot] = child
    return Checked(op, token, number.astype(np.float64, copy=False), children, _frontiers(graph, children))


def check_one_root(graph: DGLGraph) -> None:
    """Raise GraphError unless every tree of a batch, by its batch information, has one node without parents."""
    sizes = graph.batch_num_nodes().cpu().numpy()
    if sizes.sum() != graph.num_nodes() or (sizes < 0).any():
        raise GraphError(f"Its batch information counts {sizes.sum()} nodes of {graph.num_nodes()}. {RESTORE}")
    roots = np.flatnonzero(graph.out_degrees().cpu().numpy() == 0)
    tree_of_root = np.searchsorted(np.cumsum(sizes), roots, side="right")
    count = np.bincount(tree_of_root, minlength=len(sizes))
    if (count == 1).all() or (not graph.num_nodes() and len(sizes) < 2):
        return
    tree = int((count != 1).argmax())
    if not sizes[tree]:
        raise GraphError(f"Tree {tree} of the batch has no nodes. Leave it out.")
    shown = ", ".join([*map(str, roots[tree_of_root == tree][:5]), *(["..."] if count[tree] > 5 else [])])
    raise GraphError(
        f"Tree {tree} of the batch has {count[tree]} roots (nodes {shown}); one is needed. Remove what does not belong to it. "
        f"{RESTORE}"
    )


def written_out_sizes(children: np.ndarray, rising: np.ndarray, tops: np.ndarray) -> np.ndarray:
    """(N,) nodes of the tree below and with every node, where what is shared is written out as often as it is used.

    children: (N, A). rising: (N,) numbers that are higher at a node than at its children. Raises GraphError when the trees
    below nodes `tops` are too large to be written out.
    """
    size = np.ones(len(children))
    order = np.argsort(rising, kind="stable")
    for frontier in np.split(order, np.flatnonzero(np.diff(rising[order])) + 1)[1:]:
        below = children[frontier]
        size[frontier] = np.minimum(1 + np.where(below >= 0, size[below], 0).sum(1), 2.0**50)
    if size[tops].sum() > MOST_WRITTEN_OUT:
        raise GraphError(f"The trees have over {MOST_WRITTEN_OUT:,} nodes once shared ones are written out. Take fewer.")
    return size.astype(np.int64)


def _ends(graph: DGLGraph) -> list[np.ndarray]:
    """Child and parent (E,) of every edge, by its number."""
    try:
        return [end.cpu().numpy().astype(np.int64, copy=False) for end in graph.edges(order="eid")]
    except _dgl.DGLError:
        raise GraphError("The graph does not know the order of its edges. Take graph.formats(['coo', 'csr', 'csc']).") from None


def _column(graph: DGLGraph, home: str, name: str) -> np.ndarray:
    """A feature with one number per node (home `ndata`) or edge (`edata`)."""
    features = getattr(graph, home)
    if name not in features:
        raise GraphError(f"There is no graph.{home}[{name!r}]. Set it, as `dgl_treestack.data.graph.build` does.")
    values: Tensor = features[name].detach()
    if values.dim() != 1:
        raise GraphError(f"graph.{home}[{name!r}] has the shape {tuple(values.shape)}; it holds one number each.")
    if values.is_complex():
        raise GraphError(f"graph.{home}[{name!r}] is of type {values.dtype}; it holds real numbers.")
    array: np.ndarray = (values.double() if values.is_floating_point() else values).cpu().numpy()
    return array


def _whole_numbers(graph: DGLGraph, home: str, name: str) -> np.ndarray:
    values = _column(graph, home, name)
    if values.dtype.kind not in "iu":
        raise GraphError(f"graph.{home}[{name!r}] is of type {values.dtype}; it holds whole numbers, torch.int64.")
    return values.astype(np.int64, copy=False)


def _refuse(nodes: np.ndarray, fault: str) -> None:
    """Raise GraphError for the first of the nodes at fault, if there are any."""
    if len(nodes):
        more = f" So are {len(nodes) - 1} more nodes." if len(nodes) > 1 else ""
        raise GraphError(f"Node {nodes.min()} {fault}{more}")


def _check_operators(op: np.ndarray, arity: np.ndarray, signature: Signature) -> None:
    wrong = np.flatnonzero((op < NO_OPERATOR) | (op >= len(signature.operators)))
    if len(wrong):
        raise GraphError(
            f"Node {wrong[0]} has op = {op[wrong[0]]}, which is no operator of {signature.name!r}: "
            f"0 to {len(signature.operators) - 1}, or -1 at a leaf."
        )
    _refuse(np.flatnonzero((op == NO_OPERATOR) & (arity > 0)), "is a leaf (op = -1) and has children. Give it an operator.")


def _check_leaves(op: np.ndarray, token: np.ndarray, number: np.ndarray, tokens: int | None) -> None:
    leaf = op == NO_OPERATOR
    highest = np.iinfo(np.int64).max if tokens is None else tokens
    wrong = np.flatnonzero(leaf & ((token < NO_TOKEN) | (token >= highest)))
    if len(wrong):
        rows = "row from 0 on" if tokens is None else f"row of the vocabulary: 0 to {tokens - 1}"
        raise GraphError(f"Node {wrong[0]} has token = {token[wrong[0]]}, which is no {rows}, or -1 where `number` is read.")
    _refuse(
        np.flatnonzero(leaf & (token == NO_TOKEN) & ~np.isfinite(number)),
        "is a leaf with token = -1, whose number is not finite. Give it a finite number, or the token of a symbol.",
    )


def _check_slots(
    op: np.ndarray, child: np.ndarray, parent: np.ndarray, slot: np.ndarray, arity: np.ndarray, signature: Signature
) -> None:
    """The slots of a node with A children are 0 to A - 1, each once."""
    outside = (slot < 0) | (slot >= arity[parent])
    places = (arity.cumsum() - arity)[parent] + np.where(outside, 0, slot)
    uses = np.bincount(places[~outside], minlength=len(child))
    doubled = ~outside & (uses[places] > 1)
    if not (outside.any() or doubled.any()):
        return
    node = parent[outside | doubled].min()
    slots = sorted(slot[parent == node].tolist())
    raise GraphError(
        f"Node {node} ({signature.names[op[node]]}) has children in slots {', '.join(map(str, slots))}; "
        f"the slots of {arity[node]} children are 0 to {arity[node] - 1}, each once."
    )


def _check_arities(op: np.ndarray, arity: np.ndarray, signature: Signature) -> None:
    table = [-1 if operator.arity is None else operator.arity for operator in signature.operators]
    taken = np.array(table or [0])[op]  # -1 for any number from 1 on
    wrong = np.flatnonzero((op != NO_OPERATOR) & ((arity == 0) | ((taken >= 0) & (arity != taken))))
    if len(wrong):
        node = wrong[0]
        takes = "at least 1" if taken[node] < 0 else str(taken[node])
        raise GraphError(f"Node {node} has {arity[node]} children; {signature.names[op[node]]!r} takes {takes}.")


def _frontiers(graph: DGLGraph, children: np.ndarray) -> list[np.ndarray]:
    """Nodes by height, leaves first. Raises GraphError for a cycle."""
    if not len(children):
        return []
    try:
        return [nodes.numpy() for nodes in _dgl.topological_nodes_generator(graph)]
    except _dgl.DGLError:
        node = _on_a_cycle(children)
        raise GraphError(f"Node {node} is below itself: the graph has a cycle through it. Remove one of its edges.") from None


def _on_a_cycle(children: np.ndarray) -> int:
    """A node of a cycle of a graph that has one."""
    waiting, done = (children >= 0).sum(1), np.zeros(len(children), dtype=bool)
    while (ready := ~done & (waiting == 0)).any():
        done |= ready
        waiting = ((children >= 0) & ~done[children]).sum(1)
    node, passed = int((~done).argmax()), set[int]()
    while node not in passed:  # every node that is left has a child that is left
        passed.add(node)
        node = next(int(below) for below in children[node] if below >= 0 and not done[below])
    return node
