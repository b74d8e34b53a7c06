"""Expressions: immutable trees in flat arrays.

An expression is three tuples over its nodes in pre-order (a node before its children, children in slot order): the
operator or leaf class, the text a leaf was written with, and the number of children. Nothing here recurses, so a tree may
be of any depth. Reading and writing text is the business of `dgl_treestack.notation`.

Depth: a leaf has 0, an operator 1 + the maximum over its children, the equality node included. `x = y` has depth 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Self

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.leaf import LEAF_CLASSES, check_leaf, leaf_value, number_value
from dgl_treestack.operators import MATH, Signature

if TYPE_CHECKING:
    import sympy

__all__ = ["LEAF_CLASSES", "Equation", "Expression", "assemble", "check_leaf", "leaf_value", "number_value"]


@dataclass(frozen=True, eq=True)
class Expression:
    """A tree of operators and leaves.

    names: per node in pre-order, an operator of `signature` or a leaf class of `LEAF_CLASSES`.
    texts: per node, the text of a leaf as it was written (`"x"`, `"2/5"`, `"1.29"`), None at operators.
    arities: per node, its number of children.

    Raises ExpressionError when the arrays do not describe exactly one tree over the signature.

    >>> tree = Expression.parse("1 + tan(x)**2")
    >>> tree.depth, tree.size, str(tree)
    (3, 6, '1 + tan(x)**2')
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
            _check_node(self.signature, name, text, arity)
        open_places = 1
        for i, arity in enumerate(self.arities):
            if open_places == 0:
                raise ExpressionError(f"The tree is complete before node {i} of {self.size}; drop what follows it.")
            open_places += arity - 1
        if open_places:
            raise ExpressionError(f"The tree ends with {open_places} operand(s) missing.")

    # Making one

    @classmethod
    def leaf(cls, kind: str, text: str | None = None, signature: Signature = MATH) -> Self:
        """A single leaf: `Expression.leaf("Symbol", "x")`, `Expression.leaf("Pi")`."""
        return cls((kind,), (LEAF_CLASSES.get(kind) if text is None else text,), (0,), signature)

    @classmethod
    def node(cls, name: str, *children: "Expression") -> Self:
        """An operator over children: `Expression.node("Add", x, y)`."""
        signature = children[0].signature if children else MATH
        return cls(
            (name, *(n for child in children for n in child.names)),
            (None, *(t for child in children for t in child.texts)),
            (len(children), *(a for child in children for a in child.arities)),
            signature,
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read infix text. Raises ExpressionError pointing at the column. See `dgl_treestack.notation.infix`."""
        from dgl_treestack.notation.infix import read

        return cls._from_tree(read(text))

    @classmethod
    def from_prefix(cls, text: str, signature: Signature = MATH) -> Self:
        """Read the prefix form that `prefix` writes; it serves trees of any depth."""
        from dgl_treestack.notation.prefix import read

        return cls._from_tree(read(text, signature))

    @classmethod
    def from_sympy(cls, value: "sympy.Basic") -> Self:
        """Convert a SymPy expression, n-ary sums and products nested to the right."""
        from dgl_treestack.notation.symbolic import read

        return cls._from_tree(read(value))

    @classmethod
    def _from_tree(cls, tree: "Expression") -> Self:
        return cls(tree.names, tree.texts, tree.arities, tree.signature)

    # Writing one

    def __str__(self) -> str:
        from dgl_treestack.notation.infix import write

        return write(self)

    def prefix(self) -> str:
        """Space-separated tokens in pre-order: `Add One:1 Symbol:x`."""
        from dgl_treestack.notation.prefix import write

        return write(self)

    def to_sympy(self) -> "sympy.Basic":
        """The SymPy object of the same structure, unevaluated."""
        from dgl_treestack.notation.symbolic import write

        return write(self)

    # Looking at one

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
        found, child = [], i + 1
        for _ in range(self.arities[i]):
            found.append(child)
            child = self.ends[child]
        return tuple(found)

    def subtree(self, i: int) -> "Expression":
        """The expression rooted at node i."""
        span = slice(i, self.ends[i])
        return Expression(self.names[span], self.texts[span], self.arities[span], self.signature)

    def replace(self, i: int, other: "Expression") -> Self:
        """A copy in which the subtree at node i is `other`."""
        end = self.ends[i]
        return type(self)(
            self.names[:i] + other.names + self.names[end:],
            self.texts[:i] + other.texts + self.texts[end:],
            self.arities[:i] + other.arities + self.arities[end:],
            self.signature,
        )

    def leaves(self) -> Iterator[tuple[int, str, str]]:
        """(node, leaf class, text) of every leaf, left to right."""
        for i, (name, text) in enumerate(zip(self.names, self.texts, strict=True)):
            if text is not None:
                yield i, name, text

    @property
    def blanks(self) -> tuple[int, ...]:
        """Nodes that are a blank `_`."""
        return tuple(i for i, name in enumerate(self.names) if name == "Blank")


class Equation(Expression):
    """An expression rooted at `Equality`.

    >>> equation = Equation.parse("1 + tan(x)**2 = sec(x)**2")
    >>> equation.depth, str(equation.left), str(equation.right)
    (4, '1 + tan(x)**2', 'sec(x)**2')
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.names[0] != self.signature.root:
            raise ExpressionError(f"An equation is rooted at {self.signature.root!r}, not at {self.names[0]!r}. Add '='.")

    @classmethod
    def of(cls, left: Expression, right: Expression) -> Self:
        """The equation left = right."""
        return cls.node(left.signature.root or "Equality", left, right)

    @property
    def left(self) -> Expression:
        return self.subtree(1)

    @property
    def right(self) -> Expression:
        return self.subtree(self.ends[1])


def _check_node(signature: Signature, name: str, text: str | None, arity: int) -> None:
    if name in LEAF_CLASSES:
        if arity:
            raise ExpressionError(f"The leaf class {name!r} takes no operands, found {arity}.")
        check_leaf(name, text)
    elif name in signature:
        signature.check_arity(name, arity)
        if text is not None:
            raise ExpressionError(f"The operator {name!r} carries no text, found {text!r}.")
    else:
        raise ExpressionError(unknown("operator or leaf class", name, [*signature.by_name, *LEAF_CLASSES]))


def assemble(nodes: Sequence[tuple[str, str | None, int]], signature: Signature = MATH) -> Expression:
    """An expression from (name, text, arity) per node in pre-order."""
    names, texts, arities = zip(*nodes, strict=True) if nodes else ((), (), ())
    return Expression(tuple(names), tuple(texts), tuple(arities), signature)
