"""The papers' way to a correct equation: what is known to be true is rewritten with what is known to be true.

Every equation that is accepted becomes a rule in both directions. Nothing is verified: a rule that does not hold
everywhere, or a rewrite into a division by zero, makes equations that are called correct and are not. Unlike the papers'
matching, a variable that a rule repeats stands for one and the same subtree.
"""

from collections.abc import Iterable

import numpy as np

from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import Axiom
from dgl_treestack.generate.nodes import Node, Pool, find, to_equation
from dgl_treestack.generate.papers.mutation import BINARY, constant, fresh
from dgl_treestack.generate.rewrite import instantiate, match

TRIES = 10  # nodes looked at for one that a rule fits


class Dictionary:
    """Equations that are taken to be correct, and the rules they make, in one pool and from one random stream."""

    def __init__(self, axioms: Iterable[Axiom], rng: np.random.Generator):
        self.rng, self.pool = rng, Pool()
        self.known: list[Node] = []
        self._rules: dict[str, list[tuple[Node, Node]]] = {}  # label of a source's root -> source and target
        for axiom in axioms:
            self.learn(axiom.equation)

    def learn(self, equation: Equation) -> None:
        """Take an equation for correct."""
        root = self.pool.tree(equation)
        self.known.append(root)
        left, right = root.children
        for source, target in ((left, right), (right, left)):
            if source is not target:
                self._rules.setdefault("" if source.name == "Symbol" else source.label, []).append((source, target))

    def drawn(self) -> Equation:
        """A known equation."""
        return to_equation(*self._pick().children)

    def step(self) -> Equation | None:
        """A known equation, changed at a random node: the root by doing the same to both sides, any other by a rule."""
        root = self._pick()
        for _ in range(TRIES):
            index = int(self.rng.integers(root.size))
            changed = self._same_to_both(root) if index == 0 else self._rewritten(root, index)
            if changed:
                return to_equation(*changed.children)
        return None

    def _pick(self) -> Node:
        return self.known[int(self.rng.integers(len(self.known)))]

    def _same_to_both(self, root: Node) -> Node:
        name = BINARY[int(self.rng.integers(len(BINARY)))]
        operand = self.pool.tree(constant(self.rng)) if self.rng.random() < 0.5 else self._fresh(root)
        before = self.rng.random() < 0.5
        sides = ((operand, side) if before else (side, operand) for side in root.children)
        return self.pool.node("Equality", *(self.pool.node(name, *side) for side in sides))

    def _rewritten(self, root: Node, index: int) -> Node | None:
        node = find(root, index)
        found = [(target, bound) for source, target in self._candidates(node) if (bound := match(source, node)) is not None]
        if not found:
            return None
        target, bindings = found[int(self.rng.integers(len(found)))]
        new = instantiate(self.pool, target, bindings, lambda: self._fresh(root))
        return self.pool.replace(root, index, new)

    def _candidates(self, node: Node) -> list[tuple[Node, Node]]:
        """Rules with the node's label at their root; a rule for a bare variable fits leaves only, or trees would just grow."""
        rules = self._rules.get(node.label, [])
        return rules if node.children else rules + self._rules.get("", [])

    def _fresh(self, root: Node) -> Node:
        used = [node.text for node in root.walk() if node.name == "Symbol" and node.text]
        return self.pool.leaf("Symbol", fresh(used, self.rng))
