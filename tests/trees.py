"""Random trees for tests."""

import itertools
import random
from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import strategies as st

from dgl_treestack import MATH, Equation, Expression, _dgl
from dgl_treestack.expression import LEAF_CLASSES

_leaves = "Symbol:x Symbol:var_3 Integer:2 Integer:0 One:1 Half:1/2 NegativeOne:-1 Pi:pi Rational:2/5 Float:0.7 Number:1.29"
LEAVES = [(name, text) for name, text in (leaf.split(":") for leaf in _leaves.split())]
UNARY = ("sin", "cos", "exp", "atanh")
BINARY = ("Add", "Mul", "Pow", "log")


def random_tree(rng: random.Random, depth: int, unary=UNARY, binary=BINARY, leaves=LEAVES) -> Expression:
    """A tree of exactly that depth."""
    if depth == 0:
        return Expression.leaf(*rng.choice(leaves))
    if rng.random() < 0.4 and unary:
        return Expression.node(rng.choice(unary), random_tree(rng, depth - 1, unary, binary, leaves))
    sides = [depth - 1, rng.randrange(depth)]
    rng.shuffle(sides)
    return Expression.node(rng.choice(binary), *(random_tree(rng, d, unary, binary, leaves) for d in sides))


def random_equation(rng: random.Random, depth: int, **choice: Sequence) -> Equation:
    """An equation of exactly that depth."""
    other = rng.randrange(depth)
    return Equation.of(random_tree(rng, depth - 1, **choice), random_tree(rng, other, **choice))


_texts = {
    "Symbol": st.sampled_from(["x", "y", "var_0", "theta", "sin", "pi", "Half", "a1", "_b"]),
    "Integer": st.integers(-20, 10**6).map(str),
    "Rational": st.fractions(-1000, 1000, max_denominator=50).map(str),
    "Float": st.sampled_from(["0.7", "-2.5", "3."]),
    "Number": st.decimals(-99, 99, places=2).map(str) | st.sampled_from(["2", "1e5", ".5"]),
}


@st.composite
def expressions(draw: st.DrawFn, most: int = 25, equation: bool = False) -> Expression:
    """Any well-formed expression of the papers' signature: all operators, all leaf classes."""
    nodes: list[tuple[str, str | None, int]] = [("Equality", None, 2)] if equation else []
    missing = 2 if equation else 1
    while missing:
        if len(nodes) + missing < most and draw(st.booleans()):
            operator = draw(st.sampled_from(list(MATH.inner)))
            nodes.append((operator.name, None, operator.arity or 1))
            missing += (operator.arity or 1) - 1
        else:
            kind = draw(st.sampled_from(list(LEAF_CLASSES)))
            nodes.append((kind, LEAF_CLASSES[kind] or draw(_texts[kind]), 0))
            missing -= 1
    tree = Expression.from_nodes(nodes)
    return Equation(tree.names, tree.texts, tree.arities) if equation else tree


def shuffled(batch, seed=0):
    """The same batch with nodes renumbered within every tree and edges in random order."""
    generator = np.random.default_rng(seed)
    starts = np.cumsum([0, *batch.batch_num_nodes().tolist()])
    new = np.concatenate([a + generator.permutation(b - a) for a, b in itertools.pairwise(starts)])
    sources, targets = (ends.numpy() for ends in batch.edges(order="eid"))
    order = generator.permutation(len(sources))
    moved_ends = tuple(torch.from_numpy(new[ends][order]) for ends in (sources, targets))
    other = _dgl.graph(moved_ends, num_nodes=batch.num_nodes())
    other.set_batch_num_nodes(batch.batch_num_nodes())
    other.set_batch_num_edges(batch.batch_num_edges())
    for name, values in batch.ndata.items():
        moved = torch.empty_like(values)
        moved[torch.from_numpy(new)] = values
        other.ndata[name] = moved
    other.edata["slot"] = batch.edata["slot"][torch.from_numpy(order)]
    return other, torch.from_numpy(new)
