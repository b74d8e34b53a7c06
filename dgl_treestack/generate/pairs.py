"""Matched pairs: an equation that holds and one of the same depth that does not, both certified.

The false partner of a true equation is made in one of the styles named by `STYLES`.

swap          Two subtrees exchanged: same tokens, same depth, so token counts do not change. Most swaps also keep every pair of
              parent and child (the subtrees are in the same slot under the same operator, or have the same root), and most
              exchange subtrees of one side, so that the tokens of a side do not change either.
buried        A swap, then different true rewrites of both members, so that the error is not the last edit.
false rule    A rule that does not hold, from a table of plausible ones, between true rewrites.

A style yields candidates; `PairMaker` certifies which of them are false. The papers' style, a single mutation, is in `papers`:
it leaks.
"""

from collections import Counter
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


@dataclass(frozen=True)
class Pair:
    """An equation that holds with its derivation, and a false partner in one of the styles.

    family: canonical key of the root of the derivation. sides: canonical keys of the sides of depth 2 or more, which a model
    could memorise.
    """

    true: Member
    false: Member
    depth: int
    family: str
    style: str
    derivation: list[list[Any]]
    sides: frozenset[str]


@dataclass
class PairMaker:
    """Makes pairs whose canonical keys it has not seen before.

    styles: weights. partition: the family of presets to which the keys must belong; any key is accepted when empty.
    tally: outcome of an attempt -> count.
    """

    grower: Grower
    styles: Mapping[str, float]
    partition: str = ""
    seen: set[str] = field(default_factory=set)
    tally: Counter[str] = field(default_factory=Counter)

    def start(self, numeric: bool = True) -> tuple[Derivation, str]:
        """Draw the root of a derivation; return it and its family. numeric: whether it may have no variables."""
        start = self.grower.start()
        while not numeric and not any(side.variables for side in start.sides):
            start = self.grower.start()
        return start, key_of(*start.sides)

    def make(self, start: Derivation, family: str, depth: int, numeric: bool = True) -> Pair | None:
        """Grow a pair of exactly this depth from `start`, or return None. numeric: whether it may have no variables."""
        grown = changed = self.grower.grow(start, depth)
        if grown is not None:
            style = self.grower.weighted(self.styles)
            if style not in UNCHANGED:
                changed = self.grower.further(grown, depth, self.grower.pick(FURTHER))
        if grown is None or changed is None:
            self.tally["depth not reached"] += 1
            return None
        certified = self._true(changed, depth, numeric)
        if isinstance(certified, str):
            self.tally[certified] += 1
            return None
        derivation, true = certified
        candidates = false_partners(style, self.grower, grown, derivation, depth)
        false = self._false(candidates, size_of(derivation.sides), true.key)
        if false is None:
            self.tally["no false partner"] += 1
            return None
        self.tally["pairs"] += 1
        self.seen |= {true.key, false.key}
        whole_sides = frozenset(key_of(side) for side in (*true.sides, *false.sides) if side.depth >= WHOLE_SIDE)
        return Pair(true, false, depth, family, style, derivation.to_lists(), whole_sides)

    def atoms(self) -> Iterator[Pair]:
        """Yield the pairs of depth 1: a leaf equals itself, and not another one."""
        leaves = [self.grower.pool.leaf(*leaf) for leaf in (*CONSTANTS, ("Symbol", "x"), ("Symbol", "y"))]
        for i in self.grower.rng.permutation(len(leaves)):
            sides = (leaves[i], leaves[i])
            certified = self._true(Derivation(sides, (("start", SAME, sides),)), 1, numeric=True)
            candidates = ((leaves[i], leaves[j]) for j in self.grower.rng.permutation(len(leaves)) if j != i)
            if isinstance(certified, str):
                continue
            derivation, true = certified
            false = self._false(candidates, 3, true.key)
            if false is not None:
                self.seen |= {true.key, false.key}
                yield Pair(true, false, 1, true.key, "swap", derivation.to_lists(), frozenset())

    def _true(self, derivation: Derivation, depth: int, numeric: bool) -> tuple[Derivation, Member] | str:
        """Certify the true member and return it with its derivation, or the reason why there is none.

        While its key exists already or is of another partition, the equation is rewritten further.
        """
        for _ in range(_NUDGES):
            if not numeric and not any(side.variables for side in derivation.sides):
                return "no variables"
            member = self._member(derivation.sides, "holds")
            if isinstance(member, Member):
                return derivation, member
            if member is not None:
                return f"derived but {member}"
            changed = self.grower.further(derivation, depth, 1)
            if changed is None:
                break
            derivation = changed
        return "duplicate"

    def _false(self, candidates: Candidates, size: int, true_key: str) -> Member | None:
        """Return the first candidate that is refuted, new and about as large as the true member."""
        for sides in candidates:
            small, large = sorted((size, size_of(sides)))
            if large > SIZE_RATIO * small:
                continue
            member = self._member(sides, "refuted")
            if isinstance(member, Member) and member.key != true_key:
                return member
        return None

    def _member(self, sides: Sides, verdict: str) -> Member | str | None:
        """Return the member if it has the verdict, else "not <verdict>"; None if its key exists or is of another partition."""
        key = key_of(*sides)
        if key in self.seen or (self.partition and not in_partition(key, self.partition)):
            return None
        left, right = sides
        certificate = certify(left.value, right.value, sorted({*left.variables, *right.variables}), verdict)
        return Member(sides, key, certificate) if certificate else f"not {verdict}"
