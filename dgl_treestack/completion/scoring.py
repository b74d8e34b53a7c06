r"""Scores of all candidates for blanks, by a verification model, ranks of the truth by score, and the best fillers of a blank.

    raw       rank of the blanked expression itself
    class     rank of the first candidate that is right
    collapse  rank of the first right value class, where only the best candidate of each class counts

Ties keep the order of the candidates. The value class of the blanked expression is right; our files also list other classes
with which the equation holds, and doubtful ones, which are omitted. Source: the authors' released code.

Blanks with all their candidates are one graph:

    x*sin(_) = y     candidates, once     the nodes between a blank and its root, once per candidate

                     c1  c2  ...    ──►   sin(c1)  sin(c2)  ...   ──►   x*sin(c1)  x*sin(c2)  ...
                                                                          ▲
    everything else, once:  x  y  ────────────────────────────────────────┘

A node may have several parents, so this is not a tree, but it is computed like one. The graph has no equality: the task reads
the states of the two sides.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgl_treestack import truth
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.completion.questions import Blank, read_candidates
from dgl_treestack.data import graph
from dgl_treestack.data.forest import Forest, columns
from dgl_treestack.data.vocabulary import NO_TOKEN, Vocabulary
from dgl_treestack.errors import ConfigurationError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import compute

TASK = "verification"
MOST_NODES = 60_000  # of a graph
NO_VALUES = ("Symbol", "NaN", "Infinity")
COMMUTATIVE = ("Add", "Mul")


def blank_graphs(
    blanks: Sequence[Blank],
    candidates: Sequence[Expression],
    vocabulary: Vocabulary,
    signature: Signature = MATH,
    *,
    max_nodes: int,
) -> Iterator[tuple[DGLGraph, np.ndarray, np.ndarray]]:
    """Yield graphs of blanks with one set of C candidates, of about `max_nodes` nodes at most, in the order of the blanks.

    With a graph come the nodes (blanks, distinct candidates, 2) of the sides, and for every candidate (C,) its position among
    those that differ for a model. Raises VocabularyError for a leaf without a row.
    """
    forest = Forest.build([*candidates, *(tree for tree, _ in blanks)], vocabulary, signature)
    starts = forest.offsets[len(candidates) : -1].tolist()
    roots = forest.subtree[forest.offsets[: len(candidates)]]
    _, first, distinct = np.unique(roots, return_index=True, return_inverse=True)
    base = _Nodes(forest)
    # All candidates at once: node by node, blanks of `completion-deep` took 24 CPU seconds a run in place of 9.
    base.add(0, int(forest.offsets[len(candidates)]))
    fillers = base.node_of_subtree[roots[first]]
    nodes, sides = base.copy(), list[np.ndarray]()
    for (tree, blank), start in zip(blanks, starts, strict=True):
        filled, below = fillers, blank
        for node in range(blank - 1, -1, -1):
            if tree.ends[node] > blank:  # an ancestor of the blank; the nearest comes first
                children = [
                    filled if child == below else nodes.add(start + child, start + tree.ends[child])
                    for child in tree.children(node)
                ]
                if node:  # not the equality, whose children are the sides
                    values = (signature.index[tree.names[node]], NO_TOKEN, 0.0)
                    filled, below = nodes.extend(values, children, len(fillers)), node
        sides.append(np.stack([np.broadcast_to(side, len(fillers)) for side in children], axis=1))
        if nodes.count >= max_nodes or start == starts[-1]:
            op, token, number = (np.concatenate(column) for column in zip(*nodes.columns, strict=True))
            child, parent, slot = (np.concatenate(column) for column in zip(*nodes.edges, strict=True))
            batch = graph.from_columns({"op": op, "token": token, "number": number}, (child, parent, slot))
            yield batch, np.stack(sides), distinct
            nodes, sides = base.copy(), []


class _Nodes:
    """A growing graph: distinct subtrees of a forest, and nodes above them.

    node_of_subtree: for every subtree of the forest by its number, its node, or -1.
    """

    def __init__(self, forest: Forest):
        self.forest = forest
        self.children = columns(forest, forest.signature).children
        self.count = 0
        self.columns: list[tuple[np.ndarray, ...]] = []  # op, token, number
        self.edges: list[tuple[np.ndarray, ...]] = []  # source, target, slot
        self.node_of_subtree = np.full(forest.subtree.max(initial=-1) + 1, -1)

    def copy(self) -> "_Nodes":
        """Return a copy that can grow independently."""
        nodes = copy(self)
        nodes.columns, nodes.edges, nodes.node_of_subtree = [*self.columns], [*self.edges], self.node_of_subtree.copy()
        return nodes

    def add(self, start: int, stop: int) -> np.ndarray:
        """Add the missing subtrees of whole trees, the forest's nodes from `start` to `stop`.

        Returns the node (1,) of the first tree.
        """
        forest = self.forest
        numbers, first = np.unique(forest.subtree[start:stop], return_index=True)
        is_missing = self.node_of_subtree[numbers] < 0
        positions = start + first[is_missing]
        nodes = np.arange(self.count, self.count + len(positions))
        self.count += len(nodes)
        self.node_of_subtree[numbers[is_missing]] = nodes
        self.columns.append((forest.op[positions], forest.token[positions], forest.number[positions]))
        children = self.children[positions]
        row, slot = np.nonzero(children >= 0)
        self.edges.append((self.node_of_subtree[forest.subtree[children[row, slot]]], nodes[row], slot))
        return self.node_of_subtree[forest.subtree[start : start + 1]]

    def extend(self, node: tuple[float, ...], children: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Add `count` nodes with the same `node` (op, token, number); return them (count,).

        children: for each slot, one child for all of the nodes, (1,), or one for each, (count,).
        """
        nodes = np.arange(self.count, self.count + count)
        self.count += count
        self.columns.append(tuple(np.full(count, value) for value in node))
        for slot, child in enumerate(children):
            self.edges.append((np.broadcast_to(child, count), nodes, np.full(count, slot)))
        return nodes


@torch.no_grad()
def scores(
    model: Model, blanks: Sequence[Blank], candidates: Sequence[Expression], *, engine: str = "levels"
) -> Iterator[np.ndarray]:
    """Yield for each blank the scores (C,) of all candidates; a higher score means that the equation more likely holds.

    Raises ConfigurationError for a model without verification or a model that is not a tree model, VocabularyError for a leaf
    without a row.
    """
    if TASK not in model.heads:
        raise ConfigurationError(f"The model was made for {', '.join(model.heads)}; blanks are filled by one for {TASK}.")
    model.eval()
    graphs = blank_graphs(blanks, candidates, model.vocabulary, model.signature, max_nodes=MOST_NODES)
    for batch, sides, distinct in graphs:
        states = compute(batch, model.tree_cell, engine=engine, signature=model.signature)
        pairs = torch.from_numpy(sides).flatten(0, 1)
        scores_of_pairs = model.heads[TASK](partial(states.of, "h"), pairs[:, 0], pairs)
        for row in scores_of_pairs.unflatten(0, sides.shape[:2]).cpu().numpy():
            yield row[distinct]


def rank(
    scores: np.ndarray, classes: Sequence[str], truth: int, right: Collection[str], doubtful: Collection[str] = ()
) -> dict[str, Any]:
    """Rank the truth: `raw`, `class`, `collapse`; `best`, the index of the highest score; `chance`, the share that is right.

    scores, classes: of every candidate (C,). truth: index of the blanked expression. right, doubtful: value classes, of which
    the truth's is right and not doubtful.
    """
    # In float64, 11,626 of the 11,634 ranks of the released checkpoints are the published ones. The others, which
    # float32 computed, differ by one to three places among candidates whose scores differ by 5e-8 to 1.5e-6.
    order = [int(i) for i in np.argsort(-scores, kind="stable") if classes[i] not in doubtful]
    is_right = [classes[i] in right for i in order]
    first = is_right.index(True)
    wrong_before = {classes[i] for i in order[:first]}
    ranks = {"raw": order.index(truth) + 1, "class": first + 1, "collapse": len(wrong_before) + 1}
    return {**ranks, "best": order[0], "chance": sum(is_right) / len(is_right)}


def fill(model: Model, equation: Equation, candidates: Path | None = None, top: int = 10) -> list[dict[str, Any]]:
    """Return the best `top` candidates for the blank `_` of an equation, best first.

    Each is a dictionary of `filler`, `score`, `probability`, and `verdict`: the numeric verdict on the filled equation.

    candidates: a file of them; without it, `small_expressions`. Raises ExpressionError unless there is exactly one blank.
    """
    if len(equation.blanks) != 1:
        raise ExpressionError(f"{equation} has {len(equation.blanks)} blanks `_`; one is asked for, as in 'sin(x)**2 + _ = 1'.")
    (blank,) = equation.blanks
    if candidates:
        fillers: Sequence[Expression] = [example.equation for example in read_candidates(candidates)]
    else:
        variables = sorted({text for _, kind, text in equation.leaves() if kind == "Symbol"})
        fillers = small_expressions(variables, model.vocabulary)
    (score,) = scores(model, [(equation.replace(blank, fillers[0]), blank)], fillers)
    answers = []
    for i in sorted(range(len(fillers)), key=lambda i: -score[i])[:top]:
        probability = float(torch.sigmoid(torch.tensor(float(score[i]))))
        verdict = truth.judge(equation.replace(blank, fillers[i])).verdict
        answers.append({"filler": str(fillers[i]), "score": float(score[i]), "probability": probability, "verdict": verdict})
    return answers


def small_expressions(variables: Sequence[str], vocabulary: Vocabulary) -> list[Expression]:
    """Return candidates for equations with some variables.

    They are the variables, the constants of the vocabulary, every operator applied to these (arguments of sums and products in
    one order only), and the square, reciprocal and negative of every function of a variable.
    """
    symbols = [Expression.leaf("Symbol", name) for name in variables]
    leaves = [*symbols, *(Expression.leaf(*leaf) for leaf in vocabulary.leaves if leaf[0] not in NO_VALUES)]
    candidates = [*leaves]
    for operator in MATH.inner:
        arguments: Iterable[tuple[Expression, ...]] = itertools.product(leaves, repeat=operator.arity or 1)
        if operator.name in COMMUTATIVE:
            arguments = itertools.combinations_with_replacement(leaves, 2)
        candidates += [Expression.node(operator.name, *children) for children in arguments]
    minus, two = Expression.leaf("NegativeOne"), Expression.leaf("Integer", "2")
    for operator, symbol in itertools.product(MATH.inner, symbols):
        if operator.arity == 1:
            value = Expression.node(operator.name, symbol)
            for name, *children in (("Pow", value, two), ("Pow", value, minus), ("Mul", minus, value)):
                candidates.append(Expression.node(name, *children))
    return candidates
