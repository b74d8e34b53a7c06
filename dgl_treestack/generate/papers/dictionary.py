"""The papers' method for correct equations: accepted equations are rewritten with each other.

Every accepted equation becomes a rule in both directions. Nothing is verified: a rule that does not hold everywhere, or a
rewrite into a division by zero, gives wrong equations that are labelled correct. Unlike in the papers' matching, a repeated
variable of a rule matches equal subtrees.
"""

from collections.abc import Iterable

import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.nodes import Node, Pool, find, to_equation
from dgl_treestack.generate.papers.mutation import BINARY, constant, fresh, pick
from dgl_treestack.generate.rewrite import instantiate, match

TRIES = 10  # nodes to examine until a rule fits


class Dictionary:
    """Equations that are accepted as correct, and their rules, in one pool and from one random stream."""

    def __init__(self, axioms: Iterable[Axiom], rng: np.random.Generator):
        self.rng, self.pool = rng, Pool()
        self.equations: list[Equation] = []
        self._rules: dict[str, list[tuple[Node, Node]]] = {}  # label of a source's root -> source and target
        for axiom in axioms:
            self.learn(axiom.equation)

    def learn(self, equation: Equation) -> None:
        """Accept an equation as correct."""
        self.equations.append(equation)
        left, right = self.pool.tree(equation).children
        for source, target in ((left, right), (right, left)):
            if source is not target:
                self._rules.setdefault("" if source.name == "Symbol" else source.label, []).append((source, target))

    def step(self) -> Equation | None:
        """Change an accepted equation at a random node: the root by an operator with the same operand on both sides, any other
        node by a rule. Return None when no rule fits."""
        root = self.pool.tree(pick(self.equations, self.rng))
        for _ in range(TRIES):
            index = int(self.rng.integers(root.size))
            if index:
                changed = self._rewritten(root, index)
                if changed is None:
                    continue
                return to_equation(*changed.children)
            name = pick(BINARY, self.rng)
            operand = self.pool.tree(constant(self.rng)) if self.rng.random() < 0.5 else self._fresh(root)
            before = self.rng.random() < 0.5
            pairs = [(operand, side) if before else (side, operand) for side in root.children]
            return to_equation(*(self.pool.node(name, *pair) for pair in pairs))
        return None

    def _rewritten(self, root: Node, index: int) -> Node | None:
        """Rewrite a node with one of the rules that fit it. Rules with a bare variable as source are tried on leaves only;
        otherwise trees would only grow."""
        node = find(root, index)
        rules = self._rules.get(node.label, []) + ([] if node.children else self._rules.get("", []))
        matches = [(target, bound) for source, target in rules if (bound := match(source, node)) is not None]
        if not matches:
            return None
        target, bindings = pick(matches, self.rng)
        new = instantiate(self.pool, target, bindings, lambda: self._fresh(root))
        return self.pool.replace(root, index, new)

    def _fresh(self, root: Node) -> Node:
        """Return a variable that the equation does not use, or any if it uses all."""
        used = [node.text for node in root.walk() if node.name == "Symbol" and node.text]
        return self.pool.leaf("Symbol", fresh(used, self.rng))
