"""The reference for all engines: the recursion, one node at a time, in ten lines."""

import torch
from torch import Tensor

from dgl_treestack import Cell
from dgl_treestack.cells import State


class OneOperator:
    """The products of one operator, as a cell is given them."""

    def __init__(self, cell: Cell, operator: str):
        self.cell, self.operator = cell, operator

    def linear(self, product: str, x: Tensor) -> Tensor:
        return self.cell.products[product](self.operator, x)


def recurse(cell, tree, vocabulary, node=0, *, inputs=None, noise=None, visited=None) -> State:
    """States of `node`, every field with a leading dimension of 1; `visited` collects (state, signals) of every node.

    inputs: (nodes of the tree, width). noise: field -> (nodes of the tree, *shape).
    """
    name, text = tree.names[node], tree.texts[node]
    signals: dict[str, Tensor] = {}
    if text is not None:
        row = vocabulary.row(name, text)
        number = torch.tensor([float(text) if row is None else 0.0], dtype=torch.float64)
        state = cell.leaf(torch.tensor([-1 if row is None else row]), number)
    else:
        given = {"inputs": inputs, "noise": noise, "visited": visited}
        below = [recurse(cell, tree, vocabulary, child, **given) for child in tree.children(node)]
        if name == tree.signature.root:
            state = {}
        else:
            children = {field: torch.stack([state[field] for state in below], 1) for field in cell.fields}
            input_of_node = None if inputs is None else inputs[node : node + 1]
            noise_of_node = {field: factors[node : node + 1] for field, factors in (noise or {}).items()}
            state, signals = cell.node(OneOperator(cell, name), children, input_of_node, noise_of_node)
    if visited is not None:
        visited[node] = (state, signals)
    return state
