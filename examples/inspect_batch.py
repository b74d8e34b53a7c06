"""A batched DGL graph before and after a model: texts, states, stacks, actions; as a table, in NetworkX, in a file.

python examples/inspect_batch.py --folder .
"""

from pathlib import Path

import tyro

from dgl_treestack import Equation, describe, dgl, load, to_networkx
from dgl_treestack.data import graph

EQUATIONS = ("sin(x)**2 + cos(x)**2 = 1", "x*(y + 2) = x*y + 2*x", "log(x*y, 2) = log(x, 2) + log(y, 2)")


def main(folder: Path = Path(".")) -> None:
    """Batch, propagate, print, save, load and print again."""
    model = load("tree_smu")
    graphs = [graph.from_expressions([Equation.parse(text)], model.vocabulary) for text in EQUATIONS]
    batch = dgl.batch(graphs)
    print(batch)

    # After this every node has its hidden state `h`, its stack (flattened), and the actions push, pop and no-op.
    model.states(batch)
    describe(batch)
    for text, probability in zip(EQUATIONS, model(batch).sigmoid().tolist(), strict=True):
        print(f"P({text}) = {probability:.2f}")

    network = to_networkx(batch)
    print(network, "of which node 0 is", network.nodes[0]["name"])

    # A file loses the batch information; `restore_batch` restores it.
    path = folder / "batch.bin"
    dgl.save_graphs(str(path), [batch])
    (loaded,), _ = dgl.load_graphs(str(path))
    for tree in dgl.unbatch(graph.restore_batch(loaded)):
        (equation,) = graph.to_expressions(tree)
        print(equation, "has", tree.num_nodes(), "nodes; mean push", f"{tree.ndata['signal/push'].mean():.3f}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
