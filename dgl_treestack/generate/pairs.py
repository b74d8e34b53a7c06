"""Matched pairs: an equation that holds and one of the same depth that does not, both certified."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dgl_treestack import truth
from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import load_false_rules
from dgl_treestack.generate.corrupt import STYLES, UNCHANGED, Candidates, rewritten_further
from dgl_treestack.generate.derivation import SAME, Derivation, Sides, size_of
from dgl_treestack.generate.folds import in_partition
from dgl_treestack.generate.grow import Grower
from dgl_treestack.generate.keys import key_of
from dgl_treestack.generate.nodes import to_equation
from dgl_treestack.generate.pieces import CONSTANTS
from dgl_treestack.generate.rewrite import Rule, RuleIndex, rules_of
from dgl_treestack.truth import Verdict

SIZE_RATIO = 1.25  # the larger member of a pair has at most so many times the nodes of the smaller
WHOLE_SIDE = 2  # a side of this depth is worth recognising
_NUDGES = 4  # further rewrites of an equation whose key is taken or belongs to another family of presets


@dataclass(frozen=True)
class Member:
    """One equation of a pair, with its canonical key and the verdict on it."""

    sides: Sides
    key: str
    verdict: Verdict

    @property
    def equation(self) -> Equation:
        return to_equation(*self.sides)


@dataclass(frozen=True)
class Pair:
    """An equation that holds with its derivation, and a false partner made in a style of `corrupt`.

    family: canonical key of the root of the derivation. sides: canonical keys of the whole sides that are worth recognising,
    those of depth 2 or more.
    """

    true: Member
    false: Member
    depth: int
    family: str
    style: str
    derivation: list[list[Any]]
    sides: frozenset[str]


@cache
def _false_rules() -> tuple[Rule, ...]:
    return rules_of(load_false_rules())


@dataclass
class PairMaker:
    """Makes pairs whose canonical keys it has never seen before. `tally` counts what became of the attempts.

    styles: weights. partition: the family of presets whose keys are wanted, all keys when empty.
    """

    grower: Grower
    styles: Mapping[str, float]
    partition: str = ""
    seen: set[str] = field(default_factory=set)
    tally: dict[str, int] = field(default_factory=dict)
    _misleading: RuleIndex = field(default_factory=lambda: RuleIndex(_false_rules()))

    def start(self, numeric: bool = True) -> tuple[Derivation, str]:
        """A root for a derivation and its family. numeric: it may be without variables."""
        start = self.grower.start()
        while not numeric and _is_constant(start.sides):
            start = self.grower.start()
        return start, key_of(*start.sides)

    def make(self, start: Derivation, family: str, depth: int, numeric: bool = True) -> Pair | None:
        """A pair of exactly this depth grown from `start`, or None. numeric: equations without variables are allowed."""
        outcome = self._make(start, family, depth, numeric)
        name = outcome if isinstance(outcome, str) else "pairs"
        self.tally[name] = self.tally.get(name, 0) + 1
        return None if isinstance(outcome, str) else outcome

    def atoms(self) -> Iterator[Pair]:
        """The pairs of depth 1 that there are: a leaf equals itself, and not another one."""
        leaves = [self.grower.pool.leaf(*leaf) for leaf in (*CONSTANTS, ("Symbol", "x"), ("Symbol", "y"))]
        for i in self.grower.rng.permutation(len(leaves)):
            derivation = Derivation(leaves[i], leaves[i], (("start", SAME, (leaves[i], leaves[i])),))
            true = self._true(derivation, 1, numeric=True)
            others = ((leaves[i], leaves[j]) for j in self.grower.rng.permutation(len(leaves)) if j != i)
            false = None if isinstance(true, str) else self._false(others, 3, true[1].key)
            if false is not None and not isinstance(true, str):
                self.seen |= {true[1].key, false.key}
                yield Pair(true[1], false, 1, true[1].key, "swap", derivation.written(), frozenset())

    def _make(self, start: Derivation, family: str, depth: int, numeric: bool) -> Pair | str:
        """A pair, or why there is none."""
        grown = self.grower.grow(start, depth)
        if grown is None:
            return "depth not reached"
        style = self.grower.weighted(self.styles)
        changed = grown if style in UNCHANGED else rewritten_further(self.grower, grown, depth)
        if changed is None:
            return "depth not reached"
        true = self._true(changed, depth, numeric)
        if isinstance(true, str):
            return true
        derivation, member = true
        candidates = STYLES[style](self.grower, grown, derivation, depth, self._misleading)
        false = self._false(candidates, size_of(derivation.sides), member.key)
        if false is None:
            return "no false partner"
        self.seen |= {member.key, false.key}
        return Pair(member, false, depth, family, style, derivation.written(), _whole_sides(member, false))

    def _true(self, derivation: Derivation, depth: int, numeric: bool) -> tuple[Derivation, Member] | str:
        """The equation as a certified member, rewritten further while its key is not to be had, or why there is none."""
        for _ in range(_NUDGES):
            if not numeric and _is_constant(derivation.sides):
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
        """The first candidate that is refuted, new and about as large as the true member."""
        for sides in candidates:
            small, large = sorted((size, size_of(sides)))
            if large > SIZE_RATIO * small:
                continue
            member = self._member(sides, "refuted")
            if isinstance(member, Member) and member.key != true_key:
                return member
        return None

    def _member(self, sides: Sides, wanted: str) -> Member | str | None:
        """The member if it has the verdict, a word for the tally if not, None when its key is not to be had."""
        key = key_of(*sides)
        if key in self.seen or (self.partition and not in_partition(key, self.partition)):
            return None
        verdict = certify(sides, wanted)
        return Member(sides, key, verdict) if verdict else f"not {wanted}"


def _whole_sides(*members: Member) -> frozenset[str]:
    return frozenset(key_of(side) for member in members for side in member.sides if side.depth >= WHOLE_SIDE)


def _is_constant(sides: Sides) -> bool:
    return not (sides[0].variables or sides[1].variables)


def certify(sides: Sides, wanted: str) -> Verdict | None:
    """The verdict on the equation between two sides if it is the one wanted."""
    left, right = sides
    return truth.certify(left.value, right.value, sorted({*left.variables, *right.variables}), wanted)
