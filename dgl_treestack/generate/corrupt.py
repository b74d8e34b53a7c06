"""False partners of true equations, in the styles that `STYLES` names.

swap          Two subtrees exchanged: same tokens, same depth, so a bag of tokens cannot see it. Most swaps also keep every pair
              of parent and child (they exchange subtrees that hang in the same slot under the same operator, or have the same
              root), and most stay on one side, so that the sides keep their tokens too.
buried        A swap, then true rewrites of both members, each its own, so that the error is not the last edit.
false rule    A rule that does not hold, from a table of plausible ones, in the midst of true rewrites.

A style yields candidates; whether one is false is for the certificate to say. The papers' own style, a single mutation, is
in `papers.mutation`: it leaks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dgl_treestack.generate.derivation import Derivation, Sides
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.nodes import Node, Pool
from dgl_treestack.generate.rewrite import RuleIndex, draw_match

PAIR_KEEPING = 0.8  # share of swaps that must keep the pairs
SAME_SIDE = 0.6  # share of swaps that must stay on one side
MOST_FURTHER = 3  # true rewrites after the error, from 1 on

Candidates = Iterator[Sides]
Style = Callable[[Grower, Derivation, Derivation, int, RuleIndex], Candidates]


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


def swaps(grower: Grower, sides: Sides, tries: int = 24) -> Candidates:
    """Equations of the same depth and tokens with two different, disjoint subtrees exchanged."""
    pool, chance = grower.pool, grower.chance
    root = pool.node("Equality", *sides)
    found, middle = places(root), sides[0].size
    for _ in range(tries):
        first = grower.pick(found)
        keep, stay = chance(PAIR_KEEPING), chance(SAME_SIDE)
        near = [other for other in found if (other.index <= middle) == (first.index <= middle)] if stay else found
        partners = [other for other in near if _swappable(first, other, keep)]
        if partners:
            swapped = _swap(pool, root, first, grower.pick(partners))
            if swapped.depth == root.depth:
                yield swapped.children[0], swapped.children[1]


def _swappable(one: Place, other: Place, keep_pairs: bool) -> bool:
    if one.node is other.node or (keep_pairs and one.slot != other.slot and one.node.label != other.node.label):
        return False
    return one.index + one.node.size <= other.index or other.index + other.node.size <= one.index


def _swap(pool: Pool, root: Node, one: Place, other: Place) -> Node:
    first, second = sorted((one, other), key=lambda place: place.index)
    changed = pool.replace(root, second.index, first.node)  # the later one first: the earlier index stays valid
    return pool.replace(changed, first.index, second.node)


def swap(grower: Grower, origin: Derivation, true: Derivation, depth: int, false_rules: RuleIndex) -> Candidates:
    """Swaps of the true equation."""
    return swaps(grower, true.sides)


def buried(grower: Grower, origin: Derivation, true: Derivation, depth: int, false_rules: RuleIndex) -> Candidates:
    """Swaps of what the true equation was made from, rewritten further, each in its own way."""
    return _buried(grower, swaps(grower, origin.sides), depth)


def false_rule(grower: Grower, origin: Derivation, true: Derivation, depth: int, false_rules: RuleIndex) -> Candidates:
    """What a false rule makes of what the true equation was made from, rewritten further in its own way."""
    return _buried(grower, _misled(grower, origin.sides, false_rules), depth)


STYLES: dict[str, Style] = {"swap": swap, "buried": buried, "false rule": false_rule}
UNCHANGED = ("swap",)  # styles in which the true equation stays as it was grown


def rewritten_further(grower: Grower, derivation: Derivation, depth: int) -> Derivation | None:
    """A derivation with one to three true rewrites more."""
    return grower.further(derivation, depth, 1 + grower.below(MOST_FURTHER))


def _misled(grower: Grower, sides: Sides, false_rules: RuleIndex, tries: int = 30) -> Candidates:
    for _ in range(tries):
        which, _, path = grower.place(sides)
        found = draw_match(false_rules, path[-1][0], grower.rng)
        if found is not None:
            rule, bindings = found
            grower.fill(rule, bindings)
            yield grower.replaced(sides, which, path, rule, bindings)


def _buried(grower: Grower, candidates: Candidates, depth: int) -> Candidates:
    for sides in candidates:
        hidden = rewritten_further(grower, Derivation(*sides, ()), depth)
        if hidden is not None:
            yield hidden.sides
