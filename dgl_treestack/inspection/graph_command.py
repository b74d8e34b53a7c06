"""`treestack inspect` of saved DGL graphs."""

import dataclasses
import json
from pathlib import Path

import networkx as nx
import torch

from dgl_treestack.data.graph import roots
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import DataError, ExpressionError, GraphError
from dgl_treestack.expression.networkx import read
from dgl_treestack.expression.operators import MATH
from dgl_treestack.inspection import drawing, graph_file, network, summary, table
from dgl_treestack.inspection.command import check_options, save


def inspect_graphs(file: str, *, limit: int, chosen: str, output: Path | None, vocabulary: str, as_json: bool) -> None:
    """Print what is in the first `limit` trees of a file of graphs, 0 for all, and the table of one tree; draw or write it.

    chosen: the number of that tree, counted by roots, the first when it is ''. vocabulary: of graphs without texts.
    Raises DataError for a file that is damaged, graphs that are not well formed and an unknown tree, ConfigurationError for a
    negative limit and a suffix other than .png, .svg and .graphml.
    """
    check_options(limit, output)
    rows = Vocabulary.preset(vocabulary)
    try:
        _inspect(file, limit, chosen, output, rows, as_json)
    except GraphError as error:
        raise DataError(str(error), file) from None


def _inspect(file: str, limit: int, chosen: str, output: Path | None, vocabulary: Vocabulary, as_json: bool) -> None:
    graph = graph_file.read(file)
    checked, tops = check(graph, MATH), roots(graph).tolist()
    tree = _number(chosen, len(tops), file)
    first = torch.from_numpy(table.nodes_below(checked, tops[: limit or None])).to(graph.idtype)
    counts = summary.summarise(graph.subgraph(first, store_ids=False), MATH, vocabulary)
    nodes = table.nodes_below(checked, [tops[tree]])
    described = table.rows(graph, MATH, vocabulary, nodes)
    if as_json:
        print(json.dumps({**dataclasses.asdict(counts), "rows": described}))
    else:
        print(f"{summary.text(counts)}\n\ntree {tree}\n{table.text(described)}")
    if output is None:
        return
    drawn = network.to_networkx(graph, MATH, vocabulary, nodes)
    if output.suffix == network.SUFFIX:
        network.write_graphml(drawn, output)
    else:
        save(drawing.draw_network(drawn, _title(drawn, f"{Path(file).name}, tree {tree}")), output)


def _number(chosen: str, count: int, file: str) -> int:
    if not count:
        raise DataError("There are no trees in the file. Save graphs with nodes.", file)
    if chosen and not (chosen.isascii() and chosen.isdigit() and len(chosen) < 19 and int(chosen) < count):
        raise DataError(f"--equation {chosen} is no tree of the file. Give a number from 0 to {count - 1}.", file)
    return int(chosen or 0)


def _title(drawn: "nx.DiGraph[int]", otherwise: str) -> str:
    """The expression, or something else where nodes are shared."""
    try:
        return drawing.shortened(str(read(drawn)))
    except ExpressionError:
        return otherwise
