"""False partners of true equations: the same tokens and the same depth, two subtrees swapped.

A bag of tokens cannot see a swap. Most swaps also keep every pair of parent and child: they exchange subtrees that hang in
the same slot under the same operator, or that have the same root. And most stay on one side, so that the sides keep their
tokens too. Other ways of making a false partner belong beside this one, in files of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dgl_treestack.generate.nodes import Node, Pool

PAIR_KEEPING = 0.8  # share of swaps that must keep the pairs
SAME_SIDE = 0.6  # share of swaps that must stay on one side


@dataclass(frozen=True)
class Place:
    """A position in an equation: the tree that stands there, its pre-order index and what it hangs from."""

    index: int
    node: Node
    slot: str


def places(root: Node) -> list[Place]:
    """Every position below the root, in pre-order."""
    found: list[Place] = []
    pending = [(child, f"{root.name}/{i}") for i, child in reversed(list(enumerate(root.children)))]
    while pending:
        node, slot = pending.pop()
        found.append(Place(len(found) + 1, node, slot))
        pending.extend((child, f"{node.name}/{i}") for i, child in reversed(list(enumerate(node.children))))
    return found


def swaps(pool: Pool, root: Node, rng: np.random.Generator, tries: int = 12) -> Iterator[Node]:
    """Equations of the same depth and tokens as `root` with two different, disjoint subtrees exchanged."""
    found, middle = places(root), root.children[0].size
    for _ in range(tries):
        first = found[rng.integers(len(found))]
        keep, stay = rng.random() < PAIR_KEEPING, rng.random() < SAME_SIDE
        near = [other for other in found if (other.index <= middle) == (first.index <= middle)] if stay else found
        partners = [other for other in near if _swappable(first, other, keep)]
        if partners:
            swapped = _swap(pool, root, first, partners[rng.integers(len(partners))])
            if swapped.depth == root.depth:
                yield swapped


def _swappable(one: Place, other: Place, keep_pairs: bool) -> bool:
    apart = one.index + one.node.size <= other.index or other.index + other.node.size <= one.index
    alike = one.slot == other.slot or one.node.label == other.node.label
    return apart and one.node is not other.node and (alike or not keep_pairs)


def _swap(pool: Pool, root: Node, one: Place, other: Place) -> Node:
    first, second = sorted((one, other), key=lambda place: place.index)
    changed = pool.replace(root, second.index, first.node)  # the later one first: the earlier index stays valid
    return pool.replace(changed, first.index, second.node)
