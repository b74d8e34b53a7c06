"""Equations with the labels that the papers would give them.

An equation grown by `dictionary` is labelled correct. A single mutation is labelled incorrect, unless `autoevaluation` finds it
true; then it is labelled correct, and becomes a rule. All equations have different canonical keys of `folds`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.papers.autoevaluation import evaluates_to_true
from dgl_treestack.generate.papers.dictionary import Dictionary
from dgl_treestack.generate.papers.mutation import pick, single_mutation

LARGEST = 80  # nodes
STEPS = 60  # attempts per equation of the quota
STONES = 150  # stepping stones: equations of a depth without quota, from which deeper ones are grown

Cell = tuple[int, int]  # depth and label


class Unverified:
    """Fills a quota from axioms: correct equations first, then mutants of the equations accepted until then."""

    def __init__(self, axioms: Iterable[Axiom], quota: Mapping[Cell, int], rng: np.random.Generator):
        self.quota, self.rng = Counter(quota), rng
        self.axioms = sorted(axioms, key=lambda axiom: axiom.equation.depth)  # x = x comes before 0 + x = x
        self.dictionary = Dictionary(self.axioms, rng)
        self.deepest = max(depth for depth, _ in self.quota)
        self.stones = Counter({depth: STONES for depth in range(1, self.deepest) if not self.quota[depth, 1]})
        self.seen: set[str] = set()

    def run(self) -> Iterator[tuple[Equation, int]]:
        """Generate equations with their labels."""
        for axiom in self.axioms:
            if self._is_new(axiom.equation) and self._take(axiom.equation, 1):
                yield axiom.equation, 1
        for _ in range(STEPS * sum(count for (_, label), count in self.quota.items() if label == 1)):
            if not any(count > 0 for (_, label), count in self.quota.items() if label == 1):
                break
            equation = self.dictionary.step()
            if equation is None or not self._has_room(equation, 1) or not self._is_new(equation):
                continue
            self.dictionary.learn(equation)
            if self._take(equation, 1):
                yield equation, 1
            else:
                self.stones[equation.depth] -= 1
        for _ in range(STEPS * sum(count for (_, label), count in self.quota.items() if label == 0)):
            if not any(count > 0 for count in self.quota.values()):
                break
            mutant = single_mutation(pick(self.dictionary.equations, self.rng), self.rng)
            if not (self._has_room(mutant, 0) or self._has_room(mutant, 1)) or not self._is_new(mutant):
                continue
            label = int(evaluates_to_true(mutant))
            if label:
                self.dictionary.learn(mutant)
            if self._take(mutant, label):
                yield mutant, label

    def _has_room(self, equation: Equation, label: int) -> bool:
        """Return whether an equation is small enough, and is within the quota or may become a stepping stone."""
        small = equation.depth <= self.deepest and equation.size <= LARGEST
        return small and (self.quota[equation.depth, label] > 0 or (label == 1 and self.stones[equation.depth] > 0))

    def _is_new(self, equation: Equation) -> bool:
        """Record the canonical key of an equation and return whether it was new."""
        key = canonical_key(equation)
        new = key not in self.seen
        self.seen.add(key)
        return new

    def _take(self, equation: Equation, label: int) -> bool:
        """Count an equation towards the quota of its cell; return False when that is full."""
        cell = equation.depth, label
        if self.quota[cell] <= 0:
            return False
        self.quota[cell] -= 1
        return True
