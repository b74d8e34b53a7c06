"""False partners of true equations, in the styles named by `STYLES`.

swap          Two subtrees exchanged: same tokens, same depth, so token counts do not change. Most swaps also keep every pair of
              parent and child (the subtrees are in the same slot under the same operator, or have the same root), and most
              exchange subtrees of one side, so that the tokens of a side do not change either.
buried        A swap, then different true rewrites of both members, so that the error is not the last edit.
false rule    A rule that does not hold, from a table of plausible ones, between true rewrites.

A style yields candidates; `pairs` certifies which of them are false. The papers' style, a single mutation, is in
`papers.mutation`: it leaks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dgl_treestack.generate.axioms import FALSE_RULES
from dgl_treestack.generate.derivation import Derivation, Sides
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.nodes import Node
from dgl_treestack.generate.rewrite import rule_index

STYLES = ("swap", "buried", "false rule")
UNCHANGED = ("swap",)  # styles that do not rewrite the true equation further
PAIR_KEEPING = 0.8  # share of swaps that must keep the pairs of parent and child
SAME_SIDE = 0.6  # share of swaps that must exchange subtrees of one side
FURTHER = (1, 2, 3)  # numbers of true rewrites after the error

Candidates = Iterator[Sides]


@dataclass(frozen=True, slots=True)
class Position:
    """A position in an equation: its pre-order index, the subtree there, and parent operator and slot as text."""

    index: int
    node: Node
    slot: str


def positions(root: Node) -> list[Position]:
    """Return all positions below the root, in pre-order."""
    below: list[Position] = []
    pending = [(child, f"{root.name}/{i}") for i, child in reversed(list(enumerate(root.children)))]
    while pending:
        node, slot = pending.pop()
        below.append(Position(len(below) + 1, node, slot))
        pending.extend((child, f"{node.name}/{i}") for i, child in reversed(list(enumerate(node.children))))
    return below


def swaps(grower: Grower, sides: Sides, tries: int = 24) -> Candidates:
    """Yield equations of the same depth and tokens, with two different, disjoint subtrees exchanged."""
    pool = grower.pool
    root = pool.node("Equality", *sides)
    candidates, middle = positions(root), sides[0].size
    for _ in range(tries):
        first = grower.pick(candidates)
        keep_pairs, same_side = grower.rng.random() < PAIR_KEEPING, grower.rng.random() < SAME_SIDE
        partners = [
            second
            for second in candidates
            if (not same_side or (second.index <= middle) == (first.index <= middle))
            and second.node is not first.node
            and (not keep_pairs or second.slot == first.slot or second.node.label == first.node.label)
            and (first.index + first.node.size <= second.index or second.index + second.node.size <= first.index)
        ]
        if partners:
            early, late = sorted((first, grower.pick(partners)), key=lambda position: position.index)
            swapped = pool.replace(root, late.index, early.node)  # the later one first, so that the earlier index stays valid
            swapped = pool.replace(swapped, early.index, late.node)
            if swapped.depth == root.depth:
                yield swapped.children[0], swapped.children[1]


def false_partners(style: str, grower: Grower, grown: Derivation, true: Derivation, depth: int) -> Candidates:
    """Yield candidates for the false partner of the equation `true`, which was derived from `grown` by rewrites.

    A swap is made in the true equation itself. In the other styles the error is made in `grown`, and further rewrites follow.
    """
    if style == "swap":
        yield from swaps(grower, true.sides)
        return
    if style == "buried":
        errors = (Derivation(sides, ()) for sides in swaps(grower, grown.sides))
    elif style == "false rule":
        rewrites = (grower.rewritten(grown, rules=rule_index(FALSE_RULES)) for _ in range(30))
        errors = (rewrite for rewrite in rewrites if rewrite is not None)
    else:
        raise KeyError(style)
    for error in errors:
        hidden = grower.further(error, depth, grower.pick(FURTHER))
        if hidden is not None:
            yield hidden.sides
