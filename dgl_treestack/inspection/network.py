"""A batched DGL graph as a NetworkX graph, with everything that its nodes carry, and as a GraphML file."""

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
from dgl_treestack.inspection.table import OPERATOR, rows

SUFFIX = ".graphml"
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML has no way to write


def to_networkx(
    graph: DGLGraph,
    signature: Signature = MATH,
    vocabulary: Vocabulary | None = None,
    nodes: Sequence[int] | np.ndarray | None = None,
) -> "nx.DiGraph[int]":
    """The graph on its node numbers, with edges child -> parent. nodes: only these, and the edges between them.

    Attributes of a node: `name`, an operator or a leaf class, and `text`, a leaf's text or None, with which
    `expression.networkx.read` reads a tree back; `tree` and `depth`; every feature of the DGL graph but the bytes of
    `text`, as numbers and lists; `mean/<signal>`, `norm/h` and `norm/stack` as in the table of `describe`, None where a node
    has none. Of an edge: `slot`, or a list of slots where the same node stands in several of a parent.
    Raises GraphError for a graph that is not well formed.
    """
    described = rows(graph, signature, vocabulary, nodes)
    places = torch.tensor([row["node"] for row in described], dtype=torch.int64, device=graph.device)
    features = {name: values.detach()[places].cpu().tolist() for name, values in sorted(graph.ndata.items()) if name != "text"}
    network: nx.DiGraph[int] = nx.DiGraph()
    for i, row in enumerate(described):
        is_operator = row["kind"] == OPERATOR
        network.add_node(
            row["node"],
            **{name: values[i] for name, values in features.items()}
            | {f"mean/{name}": mean for name, mean in row["signals"].items()}
            | {f"norm/{name}": row[name] for name in ("h", "stack") if name in row}
            | {"name": row["name"] if is_operator else row["kind"], "text": None if is_operator else row["name"]}
            | {"tree": row["tree"], "depth": row["depth"]},
        )
    for row in described:
        for child in dict.fromkeys(row["children"]):
            slots = [slot for slot, other in enumerate(row["children"]) if other == child]
            if child in network:
                network.add_edge(child, row["node"], slot=slots[0] if len(slots) == 1 else slots)
    return network


def write_graphml(network: "nx.DiGraph[Any]", path: Path | str) -> None:
    """Write a GraphML file, whole or not at all: lists as JSON, attributes that are None left out.

    Raises OutputError where the file cannot be written, DataError for a text with characters that XML does not have.
    """
    plain: nx.DiGraph[Any] = nx.DiGraph()
    for node, data in network.nodes(data=True):
        plain.add_node(node, **_written(data))
    for child, parent, data in network.edges(data=True):
        plain.add_edge(child, parent, **_written(data))
    buffer = io.BytesIO()
    nx.write_graphml_xml(plain, buffer, infer_numeric_types=True)
    atomic.write_bytes(path, buffer.getvalue())


def _written(data: dict[str, Any]) -> dict[str, Any]:
    for value in data.values():
        if isinstance(value, str) and NO_XML.search(value):
            raise DataError(f"The text {value!r} has a character that GraphML cannot hold. Give the leaf another name.")
    shown = {name: value for name, value in data.items() if value is not None}
    return {name: json.dumps(value) if isinstance(value, (list, tuple)) else value for name, value in shown.items()}
