"""Hash-consed trees: equal subtrees are one object, so a rewrite only makes and evaluates the nodes on its way to the root."""

from collections.abc import Iterator
from typing import Any

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.truth import Value


class Node:
    """A subtree of a `Pool`; within one pool, equal trees are identical objects. Fields as in `Expression`;
    label: the operator, or class and text of a leaf. variables: their names by first occurrence.
    memory: what others have found out about the node, by who found it."""

    __slots__ = ("_value", "children", "depth", "label", "memory", "name", "size", "text", "variables")

    def __init__(self, name: str, text: str | None, children: tuple["Node", ...]):
        self.name, self.text, self.children = name, text, children
        self.label: str = name if text is None else f"{name}:{text}"
        size, depth = 1, 0
        variables: tuple[str, ...] = (text,) if name == "Symbol" and text else ()
        for child in children:  # plain loops: nodes are made by the million
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
        """The nodes of the tree in pre-order, a shared subtree as often as it stands there."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))


Path = list[tuple[Node, int]]  # nodes from a root downwards, each with the slot in which the next one hangs (0 for the last)


class Pool:
    """Makes nodes. Drop the pool to drop its nodes and their values."""

    def __init__(self) -> None:
        self._nodes: dict[tuple, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def leaf(self, kind: str, text: str) -> Node:
        key = (kind, text)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(kind, text, ())
        return node

    def node(self, name: str, *children: Node) -> Node:
        key = (name, children)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(name, None, children)
        return node

    def tree(self, expression: Expression) -> Node:
        """The node of an expression."""
        done: list[Node] = []
        for i in range(expression.size - 1, -1, -1):
            text, arity = expression.texts[i], expression.arities[i]
            if text is not None:
                done.append(self.leaf(expression.names[i], text))
                continue
            children = [done.pop() for _ in range(arity)]
            done.append(self.node(expression.names[i], *children))
        return done[0]

    def replace(self, root: Node, index: int, new: Node) -> Node:
        """`root` with the subtree at pre-order position `index` replaced."""
        return self.rebuilt(path_to(root, index), new)

    def rebuilt(self, path: Path, new: Node) -> Node:
        """The root of a path with the subtree at its end replaced."""
        for parent, slot in reversed(path[:-1]):
            children = parent.children
            new = self.node(parent.name, *children[:slot], new, *children[slot + 1 :])
        return new


def find(root: Node, index: int) -> Node:
    """The subtree at a pre-order position."""
    return path_to(root, index)[-1][0]


def path_to(root: Node, index: int) -> Path:
    """The path from the root to a pre-order position."""
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


def to_equation(left: Node, right: Node) -> Equation:
    """The equation left = right."""
    tree = Expression.from_nodes([("Equality", None, 2), *_flat(left), *_flat(right)])
    return Equation(tree.names, tree.texts, tree.arities)


def to_expression(node: Node) -> Expression:
    """The tree of a node."""
    return Expression.from_nodes(list(_flat(node)))


def _flat(node: Node) -> Iterator[tuple[str, str | None, int]]:
    return ((found.name, found.text, len(found.children)) for found in node.walk())
