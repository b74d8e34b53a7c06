"""Trees in flat arrays: the base of `Expression`, which adds the notations.

Nothing here recurses, so a tree may be of any depth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression.leaves import LEAF_CLASSES, check_leaf
from dgl_treestack.expression.operators import MATH, Signature

Node = tuple[str, str | None, int]  # operator or leaf class, text of a leaf, number of children


@dataclass(frozen=True, eq=True)
class FlatTree:
    """Operators and leaves in pre-order: a node before its children, children in slot order.

    names: per node, an operator of `signature` or a leaf class of `LEAF_CLASSES`.
    texts: per node, the text of a leaf as it was written (`"x"`, `"2/5"`, `"1.29"`), None for an operator.
    arities: per node, its number of children.

    Raises ExpressionError when the arrays do not describe exactly one tree over the signature.
    """

    names: tuple[str, ...]
    texts: tuple[str | None, ...]
    arities: tuple[int, ...]
    signature: Signature = field(default=MATH, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.texts) == len(self.arities):
            raise ExpressionError(
                f"names, texts and arities differ in length: {len(self.names)}, {len(self.texts)}, {len(self.arities)}."
            )
        for name, text, arity in zip(self.names, self.texts, self.arities, strict=True):
            if name in LEAF_CLASSES:
                if arity:
                    raise ExpressionError(f"The leaf class {name!r} takes no operands, found {arity}.")
                check_leaf(name, text)
            elif name in self.signature:
                self.signature.check_arity(name, arity)
                if text is not None:
                    raise ExpressionError(f"The operator {name!r} carries no text, found {text!r}.")
            else:
                raise ExpressionError(unknown("operator or leaf class", name, [*self.signature.names, *LEAF_CLASSES]))
        missing = 1  # operands that are still to come
        for i, arity in enumerate(self.arities):
            if missing == 0:
                raise ExpressionError(f"The tree is complete before node {i} of {self.size}; drop what follows it.")
            missing += arity - 1
        if missing:
            raise ExpressionError(f"The tree ends with {missing} operand(s) missing.")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """Number of nodes, operators and leaves."""
        return len(self.names)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Per node, the index after the last node of its subtree: subtree i is nodes `i : ends[i]`."""
        ends = [0] * self.size
        for i in range(self.size - 1, -1, -1):
            end = i + 1
            for _ in range(self.arities[i]):
                end = ends[end]
            ends[i] = end
        return tuple(ends)

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """Per node, the depth of its subtree."""
        heights = [0] * self.size
        for i in range(self.size - 1, -1, -1):
            if self.arities[i]:
                heights[i] = 1 + max(heights[child] for child in self.children(i))
        return tuple(heights)

    @property
    def depth(self) -> int:
        """Depth of the tree: a leaf 0, an operator 1 + the maximum over its children."""
        return self.heights[0]

    def children(self, i: int) -> tuple[int, ...]:
        """Indices of the children of node i, in slot order."""
        children, child = [], i + 1
        for _ in range(self.arities[i]):
            children.append(child)
            child = self.ends[child]
        return tuple(children)

    def leaves(self) -> Iterator[tuple[int, str, str]]:
        """(node, leaf class, text) of every leaf, left to right."""
        for i, (name, text) in enumerate(zip(self.names, self.texts, strict=True)):
            if text is not None:
                yield i, name, text

    @property
    def blanks(self) -> tuple[int, ...]:
        """Indices of the nodes that are a blank `_`."""
        return tuple(i for i, name in enumerate(self.names) if name == "Blank")
