"""Matched pairs: an equation that holds and one of the same depth that does not, both certified.

The false partner is made in a style: *swap*, two subtrees exchanged, so that token counts do not change; *buried*, a swap, then
different true rewrites of both members, so that the error is not the last edit; *false rule*, a plausible rule that does not
hold, between true rewrites. A style yields candidates; `PairMaker` certifies which of them are false.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.generate.folds import in_partition, key_of
from dgl_treestack.generate.grow import CONSTANTS, Grower
from dgl_treestack.generate.nodes import Node, to_expression, verdict_on
from dgl_treestack.generate.rewrite import FALSE_RULES, SAME, Derivation, rule_index
from dgl_treestack.truth import Verdict

STYLES = ("swap", "buried", "false rule")
PAIR_KEEPING = 0.8  # share of swaps that must keep the pairs of parent and child
SAME_SIDE = 0.6  # share of swaps that must exchange subtrees of one side
FURTHER = (1, 2, 3)  # numbers of true rewrites after the error
SIZE_RATIO = 1.25  # maximum ratio of the sizes of a pair's members
WHOLE_SIDE = 2  # minimum depth of a side that a model could memorise
_NUDGES = 4  # further rewrites of an equation whose key exists already or belongs to another family of presets


def swaps(grower: Grower, root: Node, tries: int = 24) -> Iterator[Node]:
    """Yield equations of the same depth and tokens, with two different, disjoint subtrees exchanged."""
    # positions below the root, in pre-order: index, the subtree there, and parent operator and slot as text
    candidates, middle = list[tuple[int, Node, str]](), root.children[0].size
    pending = [(child, f"{root.name}/{i}") for i, child in reversed(list(enumerate(root.children)))]
    while pending:
        node, slot = pending.pop()
        candidates.append((len(candidates) + 1, node, slot))
        pending.extend((child, f"{node.name}/{i}") for i, child in reversed(list(enumerate(node.children))))
    for _ in range(tries):
        first, node, slot = grower.pick(candidates)
        keep_pairs, same_side = grower.rng.random() < PAIR_KEEPING, grower.rng.random() < SAME_SIDE
        partners = [
            (second, other)
            for second, other, other_slot in candidates
            if (not same_side or (second <= middle) == (first <= middle))
            and other is not node
            and (not keep_pairs or other_slot == slot or other.label == node.label)
            and (first + node.size <= second or second + other.size <= first)
        ]
        if partners:
            (early, early_node), (late, late_node) = sorted(((first, node), grower.pick(partners)), key=lambda place: place[0])
            swapped = grower.pool.replace(root, late, early_node)  # the later one first, so that the earlier index stays valid
            swapped = grower.pool.replace(swapped, early, late_node)
            if swapped.depth == root.depth:
                yield swapped


@dataclass(frozen=True)
class Member:
    """One equation of a pair, with its canonical key and the verdict on it."""

    root: Node
    key: str
    verdict: Verdict


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
        while not (numeric or start.root.variables):
            start = self.grower.start()
        return start, key_of(start.root)

    def make(self, start: Derivation, family: str, depth: int, numeric: bool = True) -> Pair | None:
        """Grow a pair of exactly this depth from `start`, or return None. numeric: whether it may have no variables."""
        grown = changed = self.grower.grow(start, depth)
        if grown is None:
            return None
        style = self.grower.weighted(self.styles)
        # a swap is made in the equation as it finally is: rewritten once more for its key, it would not be a swap
        if style != "swap":
            changed = self.grower.further(grown, depth, self.grower.pick(FURTHER))
        true = self._true(changed, depth, numeric)
        if true is None:
            return None
        if style == "swap":
            return self._pair(*true, swaps(self.grower, true[1].root), style, family)
        # in the other styles the error is made in `grown`, and further rewrites follow
        errors: Iterable[Derivation | None] = (Derivation(root, ()) for root in swaps(self.grower, grown.root))
        if style == "false rule":
            errors = (self.grower.rewritten(grown, rules=rule_index(FALSE_RULES)) for _ in range(30))
        hidden = (self.grower.further(error, depth, self.grower.pick(FURTHER)) for error in errors if error is not None)
        candidates = (derivation.root for derivation in hidden if derivation is not None)
        return self._pair(*true, candidates, style, family)

    def atoms(self) -> Iterator[Pair]:
        """Yield the pairs of depth 1: a leaf equals itself, and not another one."""
        pool, rng = self.grower.pool, self.grower.rng
        leaves = [pool.leaf(*leaf) for leaf in (*CONSTANTS, ("Symbol", "x"), ("Symbol", "y"))]
        for i in rng.permutation(len(leaves)):
            root = pool.node("Equality", leaves[i], leaves[i])
            true = self._true(Derivation(root, (("start", SAME, root),)), 1, numeric=True)
            candidates = (pool.node("Equality", leaves[i], leaves[j]) for j in rng.permutation(len(leaves)) if j != i)
            pair = self._pair(*true, candidates, "swap", true[1].key) if true else None
            if pair:
                yield pair

    def _true(self, changed: Derivation | None, depth: int, numeric: bool) -> tuple[Derivation, Member] | None:
        """Certify the true member, rewritten further while its key exists already or is of another partition."""
        for _ in range(_NUDGES):
            if changed is None or not (numeric or changed.root.variables):
                break
            if key := self._new_key(changed.root):
                # sound rules may pass an undefined term, as in 1 = 0*(1/0) = 0, so a derivation does not suffice
                verdict = verdict_on(*changed.root.children, expected="holds")
                return (changed, Member(changed.root, key, verdict)) if verdict.verdict == "holds" else None
            changed = self.grower.further(changed, depth, 1)
        return None

    def _pair(self, derivation: Derivation, true: Member, candidates: Iterator[Node], style: str, family: str) -> Pair | None:
        """Return the pair with the first candidate that is refuted, new and about as large, and note both keys."""
        for root in candidates:
            small, large = sorted((true.root.size, root.size))
            key = self._new_key(root) if large <= SIZE_RATIO * small else None
            verdict = verdict_on(*root.children, expected="refuted") if key and key != true.key else None
            if key and verdict and verdict.verdict == "refuted":
                false = Member(root, key, verdict)
                self.seen |= {true.key, key}
                sides = (*true.root.children, *root.children)
                whole_sides = frozenset(key_of(side) for side in sides if side.depth >= WHOLE_SIDE)
                steps = json.loads(json.dumps(derivation.steps, default=lambda node: str(to_expression(node))))
                return Pair(true, false, family, style, steps, whole_sides)
        return None

    def _new_key(self, root: Node) -> str | None:
        """Return the canonical key of an equation, None if it exists already or is of another partition."""
        key = key_of(root)
        return key if key not in self.seen and (not self.partition or in_partition(key, self.partition)) else None
