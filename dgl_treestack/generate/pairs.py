"""Matched pairs: an equation that holds and one of the same depth and tokens that does not, both certified."""

from dataclasses import dataclass

from dgl_treestack.expression import Equation
from dgl_treestack.generate.corrupt import swaps
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.grow import Grower, Sides, Start
from dgl_treestack.generate.nodes import Node, to_equation
from dgl_treestack.truth import Verdict, compare


@dataclass(frozen=True)
class Pair:
    """An equation that holds, a false partner, and where they come from.

    family: canonical key of the root of the derivation. axiom: the name of the axiom it is an instance of, `same` for
    x = x, `atom` for the table of depth 1.
    """

    true: Equation
    false: Equation
    depth: int
    family: str
    axiom: str
    certificates: tuple[Verdict, ...]


class PairMaker:
    """Makes pairs whose canonical keys have never been seen before. `tally` counts what became of the attempts."""

    def __init__(self, grower: Grower):
        self.grower = grower
        self.seen: set[str] = set()
        self.tally: dict[str, int] = {}

    def start(self) -> tuple[Start, str]:
        """A root for a derivation and its family."""
        start = self.grower.start()
        return start, canonical_key(to_equation(start.left, start.right))

    def make(self, start: Start, family: str, depth: int, numeric: bool = True) -> Pair | None:
        """A pair of exactly this depth grown from `start`, or None.

        numeric: equations without variables are allowed.
        """
        sides = self.grower.grow(start, depth)
        outcome = "depth not reached" if sides is None else self._pair(sides, numeric)
        if isinstance(outcome, str):
            self._count(outcome)
            return None
        self._count("pairs")
        true, false, *certificates = outcome
        return Pair(true, false, depth, family, start.axiom, tuple(certificates))

    def _pair(self, sides: Sides, numeric: bool) -> tuple[Equation, Equation, Verdict, Verdict] | str:
        """The members and their verdicts, or why there are none."""
        if not numeric and all(side.value.constant for side in sides):
            return "no variables"
        root = self.grower.pool.node("Equality", *sides)
        verdict = certify(root)
        if verdict.verdict != "holds":
            return f"derived but {verdict.verdict}"
        true = to_equation(*sides)
        key = canonical_key(true)
        if key in self.seen:
            return "duplicate"
        partner = self._partner(root, key)
        if partner is None:
            return "no false partner"
        false, false_key, refutation = partner
        self.seen |= {key, false_key}
        return true, false, verdict, refutation

    def _partner(self, root: Node, key: str) -> tuple[Equation, str, Verdict] | None:
        for swapped in swaps(self.grower.pool, root, self.grower.rng):
            verdict = certify(swapped)
            if verdict.verdict != "refuted":
                continue
            equation = to_equation(*swapped.children)
            false_key = canonical_key(equation)
            if false_key != key and false_key not in self.seen:
                return equation, false_key, verdict
        return None

    def _count(self, outcome: str) -> None:
        self.tally[outcome] = self.tally.get(outcome, 0) + 1


def certify(root: Node) -> Verdict:
    """The verdict on an equation node."""
    left, right = root.children
    variables = sorted({node.text for node in root.walk() if node.name == "Symbol" and node.text})
    return compare(left.value, right.value, variables)
