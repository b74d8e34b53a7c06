"""What is in a batch: counts of graphs, nodes, edges, leaves, operators, depths and frontiers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgl_treestack import graph
from dgl_treestack.expression import Expression
from dgl_treestack.forest import Forest
from dgl_treestack.vocabulary import Vocabulary


@dataclass(frozen=True)
class Summary:
    """Counts over one batched graph. frontiers: nodes per step of the sweep, leaves first."""

    graphs: int
    nodes: int
    edges: int
    leaves: int
    operators: Mapping[str, int]
    leaf_texts: Mapping[str, int]
    depths: Mapping[int, int]
    frontiers: Sequence[int]


def summarise(trees: Sequence[Expression], vocabulary: Vocabulary) -> Summary:
    """Build the batched graph of some trees and count what is in it."""
    forest = Forest.build(trees, vocabulary)
    batch = graph.build(forest)
    operators, written = batch.ndata["op"].tolist(), batch.ndata["leaf"].tolist()
    names = [operator.name for operator in forest.signature.operators]
    return Summary(
        graphs=int(batch.batch_size),
        nodes=batch.num_nodes(),
        edges=batch.num_edges(),
        leaves=sum(operator < 0 for operator in operators),
        operators=_ranked(Counter(names[operator] for operator in operators if operator >= 0)),
        leaf_texts=_ranked(Counter(" ".join(forest.leaves[leaf]) for leaf in written if leaf >= 0)),
        depths=dict(sorted(Counter(forest.depths.tolist()).items())),
        frontiers=[count for _, count in sorted(Counter(forest.height.tolist()).items())],
    )


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def describe(summary: Summary) -> str:
    """The summary as text, with bars."""
    lines = [
        f"graphs {summary.graphs}, nodes {summary.nodes}, edges {summary.edges}, "
        f"leaves {summary.leaves}, operators {summary.nodes - summary.leaves}",
        "\noperators",
        *_bars(summary.operators),
        "\nleaves",
        *_bars(summary.leaf_texts),
        "\ndepth of the trees",
        *_bars({str(depth): count for depth, count in summary.depths.items()}),
        "\nfrontiers: nodes computed in one step, leaves first",
        *_bars({str(step): count for step, count in enumerate(summary.frontiers)}),
    ]
    return "\n".join(lines)


def _bars(counts: Mapping[str, int], width: int = 40) -> list[str]:
    most = max(counts.values(), default=1)
    return [f"  {name:<16}{count:>8} {'#' * round(width * count / most)}" for name, count in counts.items()]
