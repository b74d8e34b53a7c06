"""Expressions: immutable trees of operators and leaves, read and written as infix text, prefix text and SymPy objects.

Depth: a leaf has 0, an operator 1 + the maximum over its children, the equality node included. `x = y` has depth 1.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import infix, prefix
from dgl_treestack.expression.flat_tree import FlatTree, Node
from dgl_treestack.expression.leaves import LEAF_CLASSES
from dgl_treestack.expression.operators import MATH, Signature

if TYPE_CHECKING:
    import sympy


class Expression(FlatTree):
    """A tree of operators and leaves.

    >>> tree = Expression.parse("1 + tan(x)**2")
    >>> tree.depth, tree.size, str(tree)
    (3, 6, '1 + tan(x)**2')
    """

    # Constructors

    @classmethod
    def leaf(cls, kind: str, text: str | None = None, signature: Signature = MATH) -> Self:
        """A single leaf: `Expression.leaf("Symbol", "x")`, `Expression.leaf("Pi")`."""
        return cls((kind,), (LEAF_CLASSES.get(kind) if text is None else text,), (0,), signature)

    @classmethod
    def node(cls, name: str, *children: "Expression") -> Self:
        """An operator over children: `Expression.node("Add", x, y)`."""
        signature = children[0].signature if children else MATH
        return cls(
            (name, *(inner for child in children for inner in child.names)),
            (None, *(text for child in children for text in child.texts)),
            (len(children), *(arity for child in children for arity in child.arities)),
            signature,
        )

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node], signature: Signature = MATH) -> Self:
        """A tree from (name, text, arity) per node in pre-order."""
        names, texts, arities = zip(*nodes, strict=True) if nodes else ((), (), ())
        return cls(tuple(names), tuple(texts), tuple(arities), signature)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read infix text. Raises ExpressionError pointing at the column. See `dgl_treestack.expression.infix`."""
        return cls.from_nodes(infix.read(text))

    @classmethod
    def from_prefix(cls, text: str, signature: Signature = MATH) -> Self:
        """Read the prefix form, as `prefix` writes it, of a tree of any depth."""
        return cls.from_nodes(prefix.read(text, signature), signature)

    @classmethod
    def from_sympy(cls, value: "sympy.Basic") -> Self:
        """Convert a SymPy expression, n-ary sums and products nested to the right."""
        from dgl_treestack.expression.sympy import read

        return cls.from_nodes(read(value))

    # Notations

    def __str__(self) -> str:
        return infix.write(self)

    def prefix(self) -> str:
        """Space-separated tokens in pre-order: `Add One:1 Symbol:x`."""
        return prefix.write(self)

    def to_sympy(self) -> "sympy.Basic":
        """The SymPy object of the same structure, unevaluated."""
        from dgl_treestack.expression.sympy import write

        return write(self)

    # Parts

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
        """The left side."""
        return self.subtree(1)

    @property
    def right(self) -> Expression:
        """The right side."""
        return self.subtree(self.ends[1])
