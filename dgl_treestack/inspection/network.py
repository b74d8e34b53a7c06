"""A batched DGL graph as a NetworkX graph with all node features, and as a GraphML file."""

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch

from dgl_treestack import atomic
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import DataError
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.inspection.table import KEYS, OPERATOR, rows

SUFFIX = ".graphml"
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML cannot represent


def to_networkx(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    nodes: Sequence[int] | np.ndarray | None = None,
    shorten: bool = False,
) -> "nx.DiGraph[int]":
    """Return the graph as a NetworkX graph on its node numbers, with edges child -> parent.

    signature: names the operators. vocabulary: names the leaves of a graph without feature `text`. nodes: only these, and the
    edges between them. shorten: see `data.graph.node_names`.

    Attributes of a node: `name`, an operator or a leaf class, and `text`, a leaf's text or None, from which
    `expression.networkx.read` reads a tree back; `tree` and `depth`; every feature of the DGL graph but the bytes of
    `text`, as numbers and lists; `mean/<signal>`, `norm/<field>` as in the table of `describe`, None for a node
    without them. Attribute of an edge: `slot`, or a list of slots if a node is several children of the same parent.

    Raises GraphError for a graph that is not well formed, or has a text that is cut.
    """
    table = rows(graph, signature, vocabulary, nodes, shorten=shorten)
    indices = torch.tensor([row["node"] for row in table], dtype=torch.int64, device=graph.device)
    features = {name: values.detach()[indices].cpu().tolist() for name, values in sorted(graph.ndata.items()) if name != "text"}
    network: nx.DiGraph[int] = nx.DiGraph()
    for i, row in enumerate(table):
        is_operator = row["kind"] == OPERATOR
        network.add_node(
            row["node"],
            **{name: values[i] for name, values in features.items()}
            | {f"mean/{name}": mean for name, mean in row["signals"].items()}
            | {f"norm/{name}": norm for name, norm in row.items() if name not in KEYS}
            | {"name": row["name"] if is_operator else row["kind"], "text": None if is_operator else row["name"]}
            | {"tree": row["tree"], "depth": row["depth"]},
        )
    for row in table:
        for child in dict.fromkeys(row["children"]):
            slots = [slot for slot, child_at_slot in enumerate(row["children"]) if child_at_slot == child]
            if child in network:
                network.add_edge(child, row["node"], slot=slots[0] if len(slots) == 1 else slots)
    return network


def write_graphml(network: "nx.DiGraph[Any]", path: Path | str) -> None:
    """Write a GraphML file atomically, with lists as JSON and without attributes that are None.

    Raises OutputError if the file cannot be written, DataError for a text with characters that XML cannot represent.
    """
    plain = network.copy()
    for *_, attributes in (*plain.nodes(data=True), *plain.edges(data=True)):
        for name, value in list(attributes.items()):
            if isinstance(value, str) and NO_XML.search(value):
                raise DataError(f"The text {value!r} has a character that GraphML cannot hold. Give the leaf another name.")
            if value is None:
                del attributes[name]
            elif isinstance(value, (list, tuple)):
                attributes[name] = json.dumps(value)
    buffer = io.BytesIO()
    nx.write_graphml_xml(plain, buffer, infer_numeric_types=True)
    atomic.write_bytes(path, buffer.getvalue())
