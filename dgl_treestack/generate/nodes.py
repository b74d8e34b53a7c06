"""Hash-consed trees: equal subtrees are one object, so a rewrite creates and evaluates only the nodes above it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dgl_treestack.expression import Expression
from dgl_treestack.truth import Comparison, Value, Verdict

Tree = TypeVar("Tree", bound=Expression)


class Node:
    """A subtree of a `Pool`; within one pool, equal trees are identical objects. Fields as in `Expression`.

    label: the operator, or class and text of a leaf. variables: their names by first occurrence.
    memory: a cache of other modules for results about the node, by their keys.
    """

    __slots__ = ("_value", "children", "depth", "label", "memory", "name", "size", "text", "variables")

    def __init__(self, name: str, text: str | None, children: tuple["Node", ...]):
        self.name, self.text, self.children = name, text, children
        self.label: str = name if text is None else f"{name}:{text}"
        size, depth = 1, 0
        variables: tuple[str, ...] = (text,) if name == "Symbol" and text else ()
        for child in children:  # plain loops: nodes are created by the million
            size += child.size
            if child.depth >= depth:
                depth = child.depth + 1
            if child.variables != variables:
                variables = tuple(dict.fromkeys((*variables, *child.variables))) if variables else child.variables
        self.size: int = size
        self.depth: int = depth
        self.variables: tuple[str, ...] = variables
        self.memory: dict[Any, Any] = {}
        self._value: Value | None = None

    @property
    def value(self) -> Value:
        """The node's values at the points of `truth`, computed once."""
        pending = [self]
        while self._value is None:
            node = pending[-1]
            missing = [child for child in node.children if child._value is None]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            if node._value is None:
                node._value = Value(node.name, node.text, tuple(child.value for child in node.children))
        return self._value

    def walk(self) -> Iterator["Node"]:
        """Yield the nodes of the tree in pre-order, a shared subtree once per occurrence."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


Path = list[tuple[Node, int]]  # nodes from a root downwards, each with the slot of the next one (0 for the last)


@dataclass(eq=False)
class Pool:
    """Creates nodes and stores them; deleting the pool frees its nodes and their values."""

    # Few nodes are new in a rewrite, so a batch of candidates as arrays gains little: complex128 is 9 % of the time.

    nodes: dict[tuple, Node] = field(default_factory=dict)

    def leaf(self, kind: str, text: str) -> Node:
        """Return the leaf of a class and text."""
        key = (kind, text)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(kind, text, ())
        return node

    def node(self, name: str, *children: Node) -> Node:
        """Return the node of an operator over children of this pool."""
        key = (name, children)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(name, None, children)
        return node

    def tree(self, expression: Expression) -> Node:
        """Return the node of an expression."""
        roots: list[Node] = []
        for i in range(expression.size - 1, -1, -1):
            text, arity = expression.texts[i], expression.arities[i]
            if text is not None:
                roots.append(self.leaf(expression.names[i], text))
                continue
            children = [roots.pop() for _ in range(arity)]
            roots.append(self.node(expression.names[i], *children))
        return roots[0]

    def replace(self, root: Node, index: int, new: Node) -> Node:
        """Return `root` with the subtree at pre-order index `index` replaced."""
        for parent, slot in reversed(path_to(root, index)[:-1]):
            children = parent.children
            new = self.node(parent.name, *children[:slot], new, *children[slot + 1 :])
        return new


def path_to(root: Node, index: int) -> Path:
    """Return the path from the root to the node at a pre-order index. Raises IndexError beyond the last node."""
    path, node = [], root
    while index:
        index -= 1
        for slot, child in enumerate(node.children):
            if index < child.size:
                path.append((node, slot))
                node = child
                break
            index -= child.size
        else:
            raise IndexError(f"the tree ends {index + 1} nodes earlier")
    path.append((node, 0))
    return path


def find(root: Node, index: int) -> Node:
    """Return the subtree at a pre-order index."""
    return path_to(root, index)[-1][0]


def to_expression(root: Node, kind: type[Tree] = Expression) -> Tree:  # type: ignore[assignment]
    """Return the tree of a node. kind: Equation for a node of `Equality` that is used as one."""
    return kind.from_nodes([(node.name, node.text, len(node.children)) for node in root.walk()])


def verdict_on(left: Node, right: Node, *, expected: str = "") -> Verdict:
    """Return the verdict on left = right. expected: the only one of interest, see `Comparison`."""
    return Comparison(left.value, right.value, sorted({*left.variables, *right.variables}), expected=expected).verdict()
