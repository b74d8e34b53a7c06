"""Forests and expressions as one batched DGLGraph, and back.

One node per operator or leaf, edges from child to parent. Node features that are read:

    op      (N,)     index of the operator in the signature, -1 at a leaf
    token   (N,)     row of the embedding table, -1 at operators and at leaves whose `number` is encoded
    number  (N,)     value of such a leaf, else 0
    text    (N, 64)  a name for people, as bytes of UTF-8: an operator's name, `Symbol:x` for a leaf. Engines do not read it.

Edge feature `slot` (E,): the argument index of the child. `slot` alone defines the order of children, not the order of edges.
Everything else, such as which subtrees are equal, is computed whenever a graph is read, so a graph may be batched, split,
permuted, saved, edited, or built by another program. A node may have several parents: a shared subexpression.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _dgl
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.forest import Forest
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.data.wellformed import NO_OPERATOR, Checked, answer, check, written_out_sizes
from dgl_treestack.errors import GraphError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import MATH, Signature

# Texts are bytes: the one form that `dgl.batch`, `save_graphs` and `node_subgraph` all carry.
TEXT_BYTES = 64
CUT = 0xFF  # last byte of a truncated text; no byte of UTF-8 has this value


def build(forest: Forest, trees: np.ndarray | Sequence[int] | None = None) -> DGLGraph:
    """One batched graph of a forest, or of the trees at the given indices; nodes in pre-order, tree after tree."""
    batch = forest if trees is None else forest.select(trees)
    texts = encode_texts([*batch.signature.names, *(f"{kind}:{text}" for kind, text in batch.leaves)])
    graph = from_columns({name: getattr(batch, name).copy() for name in ("op", "token", "number")}, batch.edges())
    graph.ndata["text"] = texts[np.where(batch.op == NO_OPERATOR, len(batch.signature.names) + batch.leaf, batch.op)]
    # 0.19 ms for 32 equations; `dgl.batch` of 32 graphs takes 2.4
    graph.set_batch_num_nodes(torch.from_numpy(batch.sizes))
    graph.set_batch_num_edges(torch.from_numpy(batch.sizes - 1))
    return graph


def from_columns(nodes: Mapping[str, np.ndarray], edges: tuple[np.ndarray, np.ndarray, np.ndarray]) -> DGLGraph:
    """A graph from columns; nodes may have several parents. nodes: features (N,). edges: child, parent, slot (E,)."""
    source, target, slot = map(torch.from_numpy, edges)
    graph = _dgl.graph((source, target), num_nodes=len(nodes["op"]))
    for name, values in nodes.items():
        graph.ndata[name] = torch.from_numpy(values)
    graph.edata["slot"] = slot
    return graph


def from_expressions(trees: Sequence[Expression], vocabulary: Vocabulary, signature: Signature | None = None) -> DGLGraph:
    """One batched graph of a few expressions. For a data set, build a `Forest` once and graphs of its trees.

    signature: of all trees, by default that of the first one.
    """
    return build(Forest.build(trees, vocabulary, signature))


def to_expressions(graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None) -> list[Expression]:
    """The trees of a batched graph, in the order of their roots, for any order of nodes and edges.

    vocabulary: names the leaves of a graph without feature `text`, and those whose text is cut. Raises GraphError for a graph
    that is not well formed, and where texts are missing, cut, or contradict `op`.
    """
    checked, names = node_names(graph, signature, vocabulary)
    written_out_sizes(checked.children, checked.heights, roots(graph).cpu().numpy())
    children = [[child for child in row if child >= 0] for row in checked.children.tolist()]
    trees = []
    for root in roots(graph).tolist():
        nodes: list[tuple[str, str | None, int]] = []
        pending = [root]
        while pending:
            node = pending.pop()
            pending.extend(reversed(children[node]))
            if checked.op[node] == NO_OPERATOR:
                kind, _, text = names[node].partition(":")
                nodes.append((kind, text, 0))
            else:
                nodes.append((names[node], None, len(children[node])))
        trees.append(Expression.from_nodes(nodes, signature).recognised())
    return trees


def encode_texts(texts: Sequence[str]) -> Tensor:
    """(n, 64) bytes, the form of node feature `text`. A longer text is cut, and its last byte is `CUT`."""
    rows = np.zeros((len(texts), TEXT_BYTES), dtype=np.uint8)
    for row, text in zip(rows, texts, strict=True):
        encoded = text.encode()
        if len(encoded) > TEXT_BYTES:
            encoded = encoded[: TEXT_BYTES - 1] + bytes([CUT])
        row[: len(encoded)] = np.frombuffer(encoded, dtype=np.uint8)
    return torch.from_numpy(rows)


def node_names(
    graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None, *, shorten: bool = False
) -> tuple[Checked, list[str]]:
    """The checked graph, and (N,) the name of an operator, or `class:text` of a leaf: `sin`, `Symbol:x`, `Number:1.29`.

    vocabulary: names the leaves of a graph without feature `text`, and those whose text is cut. shorten: whether a text that
    is cut and in no vocabulary ends in an ellipsis. Raises GraphError for a graph that is not well formed, and where a name is
    missing, cut, or contradicts `op`.
    """
    if vocabulary is not None and (vocabulary.unify == "words") != signature.words:
        of_words = "a language of words" if signature.words else "mathematics"
        raise GraphError(f"The vocabulary does not fit {signature.name!r}, {of_words}. Pass the signature of the graph.")
    checked = check(graph, signature, None if vocabulary is None else len(vocabulary))
    leaves = [] if vocabulary is None else [f"{kind}:{text}" for kind, text in vocabulary.leaves]
    columns = zip(checked.op.tolist(), checked.token.tolist(), checked.number.tolist(), strict=True)
    by_row = [
        signature.names[op] if op >= 0 else f"Number:{number!r}" if token == NO_TOKEN else leaves[token] if leaves else ""
        for op, token, number in columns
    ]
    values = graph.ndata["text"].cpu() if "text" in graph.ndata else None
    if values is None and vocabulary is not None:
        return checked, by_row
    if values is None or values.dtype != torch.uint8 or values.shape[1:] != (TEXT_BYTES,):
        fault = "Nodes have no feature 'text'. Pass the vocabulary that `token` was made with."
        if values is not None:
            fault = f"graph.ndata['text'] has dtype {values.dtype} and shape {tuple(values.shape)}; it holds {TEXT_BYTES} "
            fault += "bytes per node, as `dgl_treestack.data.graph.encode_texts` makes them."
        raise GraphError(fault)
    # few of the texts of a batch differ, and only those are decoded
    rows, index = torch.unique(values, dim=0, return_inverse=True)
    texts = [bytes(row.tolist()).rstrip(b"\0") for row in rows]
    names = []
    columns = zip(checked.op.tolist(), (texts[i] for i in index.tolist()), by_row, strict=True)
    for node, (op, text, whole) in enumerate(columns):
        name, fault = whole, ""
        if text[-1:] != bytes([CUT]):
            try:
                name = text.decode()
            except UnicodeDecodeError:
                fault = f"The text of node {node}, {text!r}, is no UTF-8. Set it with `encode_texts`."
        elif whole.encode()[: TEXT_BYTES - 1] != text[:-1]:
            name = text[:-1].decode(errors="ignore") + "…"
            if not shorten:
                fault = f"The text of node {node} is cut: it had more than {TEXT_BYTES} bytes. Pass a vocabulary with it."
        if not fault and ((":" not in name) if op < 0 else (name != signature.names[op])):
            expected = "a leaf, such as 'Symbol:x'" if op < 0 else repr(signature.names[op])
            fault = f"Node {node} has op = {op}, which is {expected} in {signature.name!r}, and the text {name!r}. "
            fault += "After a change of `op`, set `text` with `dgl_treestack.data.graph.encode_texts`."
        if fault:
            raise GraphError(fault)
        names.append(name)
    return checked, names


def roots(graph: DGLGraph) -> Tensor:
    """(B,) nodes without parents, in order: one per tree."""
    return torch.nonzero(answer(DGLGraph.out_degrees, graph) == 0).squeeze(1)


def tree_of_node(checked: Checked) -> np.ndarray:
    """(N,) index of every node's tree, in the order of the roots; for a node of several trees, the last of them."""
    is_root = np.ones(len(checked.op), dtype=bool)
    is_root[checked.children[checked.children >= 0]] = False
    tree = np.where(is_root, np.cumsum(is_root) - 1, -1)
    for level in reversed(checked.levels):
        children = checked.children[level]
        tree[children[children >= 0]] = np.repeat(tree[level], (children >= 0).sum(1))
    return tree


def restore_batch(graph: DGLGraph, signature: Signature = MATH) -> DGLGraph:
    """Set, in place, the batch information that files and `dgl.node_subgraph` lose. Returns the graph.

    Raises GraphError unless nodes and edges are contiguous per tree, in the order of the trees.
    """
    checked = check(graph, signature)
    tree = tree_of_node(checked)
    edge_tree = tree[answer(lambda graph: graph.edges(order="eid"), graph)[0].cpu().numpy()]
    for trees, elements in ((tree, "nodes"), (edge_tree, "edges")):
        if (np.diff(trees) < 0).any():
            raise GraphError(f"The {elements} of a tree are not contiguous. Sort them by tree with `dgl.reorder_graph`.")
    count = int(tree.max(initial=-1)) + 1
    like = {"dtype": graph.idtype, "device": graph.device}  # DGL 2.1 takes no other type
    graph.set_batch_num_nodes(torch.from_numpy(np.bincount(tree, minlength=count)).to(**like))
    graph.set_batch_num_edges(torch.from_numpy(np.bincount(edge_tree, minlength=count)).to(**like))
    return graph
