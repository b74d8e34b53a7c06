"""Matched pairs: an equation that holds and one of the same depth that does not, both certified.

The false partner of a true equation is made in one of the styles named by `STYLES`.

swap          Two subtrees exchanged: same tokens, same depth, so token counts do not change. Most swaps also keep every pair of
              parent and child (the subtrees are in the same slot under the same operator, or have the same root), and most
              exchange subtrees of one side, so that the tokens of a side do not change either.
buried        A swap, then different true rewrites of both members, so that the error is not the last edit.
false rule    A rule that does not hold, from a table of plausible ones, between true rewrites.

A style yields candidates; `PairMaker` certifies which of them are false. The papers' style, a single mutation, is in
`presets.paper_labels`: it leaks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.expression import Equation
from dgl_treestack.generate.derivation import SAME, Derivation, Sides, size_of
from dgl_treestack.generate.folds import in_partition, key_of
from dgl_treestack.generate.grow import CONSTANTS, Grower
from dgl_treestack.generate.nodes import Node, to_equation
from dgl_treestack.generate.rewrite import FALSE_RULES, rule_index
from dgl_treestack.truth import Verdict, certify

STYLES = ("swap", "buried", "false rule")
UNCHANGED = ("swap",)  # styles that do not rewrite the true equation further
PAIR_KEEPING = 0.8  # share of swaps that must keep the pairs of parent and child
SAME_SIDE = 0.6  # share of swaps that must exchange subtrees of one side
FURTHER = (1, 2, 3)  # numbers of true rewrites after the error
SIZE_RATIO = 1.25  # maximum ratio of the sizes of a pair's members
WHOLE_SIDE = 2  # minimum depth of a side that a model could memorise
_NUDGES = 4  # further rewrites of an equation whose key exists already or belongs to another family of presets

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
    else:
        rewrites = (grower.rewritten(grown, rules=rule_index(FALSE_RULES)) for _ in range(30))
        errors = (rewrite for rewrite in rewrites if rewrite is not None)
    for error in errors:
        hidden = grower.further(error, depth, grower.pick(FURTHER))
        if hidden is not None:
            yield hidden.sides


@dataclass(frozen=True)
class Member:
    """One equation of a pair, with its canonical key and the verdict on it."""

    sides: Sides
    key: str
    verdict: Verdict

    @property
    def equation(self) -> Equation:
        """The equation between the sides."""
        return to_equation(*self.sides)


def certified(sides: Sides, key: str, verdict: str) -> Member | None:
    """Return the member between two sides if it has the verdict."""
    left, right = sides
    certificate = certify(left.value, right.value, sorted({*left.variables, *right.variables}), verdict)
    return Member(sides, key, certificate) if certificate else None


@dataclass(frozen=True)
class Pair:
    """An equation that holds with its derivation, and a false partner in one of the styles.

    family: canonical key of the root of the derivation. sides: canonical keys of the sides of depth 2 or more, which a model
    could memorise.
    """

    true: Member
    false: Member
    family: str
    style: str
    derivation: list[list[Any]]
    sides: frozenset[str]


@dataclass
class PairMaker:
    """Makes pairs whose canonical keys it has not seen before.

    styles: weights. partition: the family of presets to which the keys must belong; any key is accepted when empty.
    """

    grower: Grower
    styles: Mapping[str, float]
    partition: str = ""
    seen: set[str] = field(default_factory=set)

    def start(self, numeric: bool = True) -> tuple[Derivation, str]:
        """Draw the root of a derivation; return it and its family. numeric: whether it may have no variables."""
        start = self.grower.start()
        while not numeric and not any(side.variables for side in start.sides):
            start = self.grower.start()
        return start, key_of(*start.sides)

    def make(self, start: Derivation, family: str, depth: int, numeric: bool = True) -> Pair | None:
        """Grow a pair of exactly this depth from `start`, or return None. numeric: whether it may have no variables."""
        grown = changed = self.grower.grow(start, depth)
        if grown is None:
            return None
        style = self.grower.weighted(self.styles)
        if style not in UNCHANGED:
            changed = self.grower.further(grown, depth, self.grower.pick(FURTHER))
        certified = self._true(changed, depth, numeric) if changed else None
        if certified is None:
            return None
        derivation, true = certified
        candidates = false_partners(style, self.grower, grown, derivation, depth)
        false = self._false(candidates, size_of(derivation.sides), true.key)
        if false is None:
            return None
        whole_sides = frozenset(key_of(side) for side in (*true.sides, *false.sides) if side.depth >= WHOLE_SIDE)
        return Pair(true, false, family, style, derivation.to_lists(), whole_sides)

    def atoms(self) -> Iterator[Pair]:
        """Yield the pairs of depth 1: a leaf equals itself, and not another one."""
        leaves = [self.grower.pool.leaf(*leaf) for leaf in (*CONSTANTS, ("Symbol", "x"), ("Symbol", "y"))]
        for i in self.grower.rng.permutation(len(leaves)):
            sides = (leaves[i], leaves[i])
            certified = self._true(Derivation(sides, (("start", SAME, sides),)), 1, numeric=True)
            candidates = ((leaves[i], leaves[j]) for j in self.grower.rng.permutation(len(leaves)) if j != i)
            false = self._false(candidates, 3, certified[1].key) if certified else None
            if certified and false:
                derivation, true = certified
                yield Pair(true, false, true.key, "swap", derivation.to_lists(), frozenset())

    def _true(self, derivation: Derivation, depth: int, numeric: bool) -> tuple[Derivation, Member] | None:
        """Certify the true member and return it with its derivation.

        While its key exists already or is of another partition, the equation is rewritten further.
        """
        changed: Derivation | None = derivation
        for _ in range(_NUDGES):
            if changed is None or not (numeric or any(side.variables for side in changed.sides)):
                break
            if key := self._new_key(changed.sides):
                member = certified(changed.sides, key, "holds")
                return (changed, member) if member else None
            changed = self.grower.further(changed, depth, 1)
        return None

    def _false(self, candidates: Candidates, size: int, true_key: str) -> Member | None:
        """Return the first candidate that is refuted, new and about as large as the true member, and note both keys."""
        for sides in candidates:
            small, large = sorted((size, size_of(sides)))
            if large > SIZE_RATIO * small:
                continue
            key = self._new_key(sides)
            member = certified(sides, key, "refuted") if key else None
            if member and key != true_key:
                self.seen |= {true_key, member.key}
                return member
        return None

    def _new_key(self, sides: Sides) -> str | None:
        """Return the canonical key of an equation, None if it exists already or is of another partition."""
        key = key_of(*sides)
        return key if key not in self.seen and (not self.partition or in_partition(key, self.partition)) else None
