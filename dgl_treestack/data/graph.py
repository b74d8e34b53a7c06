"""Forests and expressions as one batched DGLGraph, and back.

One node per operator or leaf, edges from child to parent. Node features that are read:

    op      (N,)     position of the operator in the signature, -1 at a leaf
    token   (N,)     row of the embedding table, -1 at operators and at leaves whose `number` is encoded
    number  (N,)     value of such a leaf, else 0
    text    (N, 64)  what people read, as bytes of UTF-8: an operator's name, `Symbol:x` for a leaf. No engine looks at it.

Edge feature `slot` (E,): which argument the child is. Child order is in `slot` alone, never in the order of the edges.
Everything else, such as which subtrees are equal, is found anew whenever a graph is read, so a graph may be batched, cut,
permuted, saved, edited, or made by somebody else. A node may have several parents: a subexpression that is shared.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import NO_OPERATOR, NO_TOKEN, Forest
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import Checked, check, written_out_sizes
from dgl_treestack.errors import GraphError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH, Signature

TEXT_BYTES = 64
CUT = 0xFF  # the last byte of a text that was longer; it is no byte of UTF-8


def build(forest: Forest, trees: np.ndarray | Sequence[int] | None = None) -> DGLGraph:
    """One batched graph of a forest, or of some of its trees; nodes in pre-order, tree after tree."""
    batch = forest if trees is None else forest.select(trees)
    children = np.flatnonzero(batch.parent >= 0)
    texts = encode_texts([*batch.signature.names, *(f"{kind}:{text}" for kind, text in batch.leaves)])
    graph = from_columns(
        {name: getattr(batch, name).copy() for name in ("op", "token", "number")},
        (children, batch.parents[children], batch.slot[children]),
    )
    graph.ndata["text"] = texts[np.where(batch.op == NO_OPERATOR, len(batch.signature.names) + batch.leaf, batch.op)]
    graph.set_batch_num_nodes(torch.from_numpy(batch.sizes))
    graph.set_batch_num_edges(torch.from_numpy(batch.sizes - 1))
    return graph


def from_columns(nodes: Mapping[str, np.ndarray], edges: tuple[np.ndarray, np.ndarray, np.ndarray]) -> DGLGraph:
    """A graph of any nodes, which may have several parents. nodes: features (N,). edges: child, parent, slot (E,)."""
    source, target, slot = map(torch.from_numpy, edges)
    graph = _dgl.graph((source, target), num_nodes=len(nodes["op"]))
    for name, values in nodes.items():
        graph.ndata[name] = torch.from_numpy(values)
    graph.edata["slot"] = slot
    return graph


def from_expressions(trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature = MATH) -> DGLGraph:
    """One batched graph of expressions. Use a `Forest` for a data set; this is for a handful of trees."""
    return build(Forest.build(trees, vocabulary, signature))


def to_expressions(graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None) -> list[Expression]:
    """The trees of a batched graph, in the order of their roots, whatever the order of nodes and edges.

    vocabulary: names the leaves of a graph without feature `text`. Raises GraphError for a graph that is not well formed, and
    where texts are missing, cut, or contradict `op`.
    """
    checked = check(graph, signature)
    written_out_sizes(checked.children, checked.heights, roots(graph).cpu().numpy())
    names = node_names(graph, signature, vocabulary)
    children = [[child for child in row if child >= 0] for row in checked.children.tolist()]
    return [_expression(root, checked.op, names, children, signature) for root in roots(graph).tolist()]


def _expression(
    root: int, op: np.ndarray, names: Sequence[str], children: Sequence[Sequence[int]], signature: Signature
) -> Expression:
    nodes: list[tuple[str, str | None, int]] = []
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(reversed(children[node]))
        if op[node] == NO_OPERATOR:
            kind, _, text = names[node].partition(":")
            nodes.append((kind, text, 0))
        else:
            nodes.append((names[node], None, len(children[node])))
    tree = Expression.from_nodes(nodes, signature)
    is_equation = tree.names[0] == signature.root
    return Equation(tree.names, tree.texts, tree.arities, signature) if is_equation else tree


def encode_texts(texts: Sequence[str]) -> Tensor:
    """(n, 64) bytes, as node feature `text` holds them. Longer texts are cut, which is marked."""
    rows = np.zeros((len(texts), TEXT_BYTES), dtype=np.uint8)
    for row, text in zip(rows, texts, strict=True):
        encoded = text.encode()
        if len(encoded) > TEXT_BYTES:
            encoded = encoded[: TEXT_BYTES - 1] + bytes([CUT])
        row[: len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)
    return torch.from_numpy(rows)


def node_names(graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None) -> list[str]:
    """(N,) the name of an operator, or `class:text` of a leaf: `sin`, `Symbol:x`, `Number:1.29`.

    vocabulary: names the leaves of a graph without feature `text`. Raises GraphError for a graph that is not well formed, and
    where a name is missing, cut, or is another operator's than `op` says.
    """
    checked = check(graph, signature, None if vocabulary is None else len(vocabulary))
    if "text" not in graph.ndata:
        if vocabulary is None:
            raise GraphError("Nodes have no feature 'text'. Give the vocabulary that `token` was made with.")
        return _names_by_vocabulary(checked, signature, vocabulary)
    values = graph.ndata["text"].cpu()
    if values.dtype != torch.uint8 or values.shape[1:] != (TEXT_BYTES,):
        raise GraphError(
            f"graph.ndata['text'] is of type {values.dtype} and shape {tuple(values.shape)}; it holds {TEXT_BYTES} bytes per "
            "node, as `dgl_treestack.data.graph.encode_texts` makes them."
        )
    rows, place = torch.unique(values, dim=0, return_inverse=True)
    texts = [bytes(row.tolist()).rstrip(b"\0") for row in rows]
    operators = zip(checked.op.tolist(), place.tolist(), strict=True)
    return [_name(node, op, texts[i], signature) for node, (op, i) in enumerate(operators)]


def _name(node: int, op: int, text: bytes, signature: Signature) -> str:
    """A text that agrees with `op`."""
    if text[-1:] == bytes([CUT]):
        raise GraphError(f"The text of node {node} is cut: it had more than {TEXT_BYTES} bytes. Shorten the name of the leaf.")
    try:
        name = text.decode()
    except UnicodeDecodeError:
        raise GraphError(f"The text of node {node}, {text!r}, is no UTF-8. Set it with `encode_texts`.") from None
    if (":" not in name) if op < 0 else (name != signature.names[op]):
        meant = "a leaf, such as 'Symbol:x'" if op < 0 else repr(signature.names[op])
        raise GraphError(
            f"Node {node} has op = {op}, which is {meant} in {signature.name!r}, and the text {name!r}. "
            "Who changes `op` changes `text` with `dgl_treestack.data.graph.encode_texts`."
        )
    return name


def _names_by_vocabulary(nodes: Checked, signature: Signature, vocabulary: Vocabulary) -> list[str]:
    leaves = [f"{kind}:{text}" for kind, text in vocabulary.leaves]
    columns = zip(nodes.op.tolist(), nodes.token.tolist(), nodes.number.tolist(), strict=True)
    return [
        signature.names[op] if op >= 0 else f"Number:{number!r}" if token == NO_TOKEN else leaves[token]
        for op, token, number in columns
    ]


def roots(graph: DGLGraph) -> Tensor:
    """(B,) nodes without parents, in order: one per tree."""
    return torch.nonzero(graph.out_degrees() == 0).squeeze(1)


def tree_of_node(checked: Checked) -> np.ndarray:
    """(N,) the tree of every node, counted by roots; of a node in several trees, the last of them."""
    is_root = np.ones(len(checked.op), dtype=bool)
    is_root[checked.children[checked.children >= 0]] = False
    tree = np.where(is_root, np.cumsum(is_root) - 1, -1)
    for frontier in reversed(checked.frontiers):
        below = checked.children[frontier]
        tree[below[below >= 0]] = np.repeat(tree[frontier], (below >= 0).sum(1))
    return tree


def restore_batch(graph: DGLGraph, signature: Signature = MATH) -> DGLGraph:
    """Set, in place, which nodes are of which tree, as a file and `dgl.node_subgraph` forget it. Returns the graph.

    Raises GraphError unless the nodes of every tree stand together, tree after tree, and its edges too.
    """
    checked = check(graph, signature)
    tree = tree_of_node(checked)
    edge_tree = tree[graph.edges(order="eid")[0].cpu().numpy()]
    for values, things in ((tree, "nodes"), (edge_tree, "edges")):
        if (np.diff(values) < 0).any():
            raise GraphError(f"The {things} of a tree do not stand together. Sort them by tree with `dgl.reorder_graph`.")
    count = int(tree.max(initial=-1)) + 1
    like = {"dtype": graph.idtype, "device": graph.device}  # DGL 2.1 takes no other type
    graph.set_batch_num_nodes(torch.from_numpy(np.bincount(tree, minlength=count)).to(**like))
    graph.set_batch_num_edges(torch.from_numpy(np.bincount(edge_tree, minlength=count)).to(**like))
    return graph
