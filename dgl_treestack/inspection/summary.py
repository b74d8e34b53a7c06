"""Counts over a batch: graphs, nodes, edges, leaves, operators, depths and frontiers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.graph import node_names, roots
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.data.wellformed import NO_OPERATOR
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.inspection.table import cell


@dataclass(frozen=True)
class Summary:
    """Counts over one batched graph.

    operators, leaf_texts: name -> nodes, the most frequent first. depths: depth -> trees. levels: number of nodes of
    every height, leaves first.
    """

    graphs: int
    nodes: int
    edges: int
    leaves: int
    operators: Mapping[str, int]
    leaf_texts: Mapping[str, int]
    depths: Mapping[int, int]
    levels: Sequence[int]


def summarise(graph: DGLGraph, signature: Signature = MATH, vocabulary: Vocabulary | None = None) -> Summary:
    """Count the elements of a batched graph; trees are counted by roots.

    signature: names the operators. vocabulary: names the leaves of a graph without feature `text`.
    Raises GraphError for a graph that is not well formed.
    """
    checked, names = node_names(graph, signature, vocabulary, shorten=True)
    is_leaf = checked.op == NO_OPERATOR
    depths = checked.heights[roots(graph).cpu().numpy()]
    return Summary(
        graphs=len(depths),
        nodes=graph.num_nodes(),
        edges=graph.num_edges(),
        leaves=int(is_leaf.sum()),
        operators=_ranked(Counter(name for name, leaf in zip(names, is_leaf, strict=True) if not leaf)),
        leaf_texts=_ranked(Counter(name.replace(":", " ", 1) for name, leaf in zip(names, is_leaf, strict=True) if leaf)),
        depths=dict(sorted(Counter(depths.tolist()).items())),
        levels=[len(level) for level in checked.levels],
    )


def _ranked(counts: Counter[str]) -> dict[str, int]:
    """Return counts by falling frequency, equal ones by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def text(summary: Summary) -> str:
    """Return a summary as text with a bar chart per kind of count."""
    lines = [
        f"graphs {summary.graphs}, nodes {summary.nodes}, edges {summary.edges}, "
        f"leaves {summary.leaves}, operators {summary.nodes - summary.leaves}",
        "\noperators",
        *_bars(summary.operators),
        "\nleaves",
        *_bars(summary.leaf_texts),
        "\ndepth of the trees",
        *_bars({str(depth): count for depth, count in summary.depths.items()}),
        "\nlevels: nodes of one height, leaves first",
        *_bars({str(step): count for step, count in enumerate(summary.levels)}),
    ]
    return "\n".join(lines)


def _bars(counts: Mapping[str, int], width: int = 40) -> list[str]:
    """Return a line per count, the longest bar `width` characters wide."""
    largest = max(counts.values(), default=1)
    return [f"  {cell(name):<16}{count:>8} {'#' * round(width * count / largest)}" for name, count in counts.items()]
