"""Expressions: immutable trees of operators and leaves, read and written as infix text, prefix text and SymPy objects.

Nothing is recursive, so a tree may have any depth.

Depth: a leaf has 0, an operator 1 + the maximum over its children, the equality node included. `x = y` has depth 1.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from dgl_treestack.errors import ExpressionError, unknown
from dgl_treestack.expression import infix, notations
from dgl_treestack.expression.operators import MATH, Node, Signature, check_leaf, operands

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class Expression:
    """A tree of operators and leaves, in flat arrays in pre-order: a node before its children, children in slot order.

    names: per node, an operator or a leaf class of `signature`.
    texts: per node, the text of a leaf as it was written (`"x"`, `"2/5"`, `"1.29"`), None for an operator.
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
        signature, leaf_classes, fault = self.signature, self.signature.leaf_classes, ""
        missing = 1  # operands
        if len({*map(len, (self.names, self.texts, self.arities))}) > 1:
            fault = f"names, texts and arities differ in length: {self.size}, {len(self.texts)}, {len(self.arities)}."
        for i, (name, text, arity) in enumerate(() if fault else self.nodes):
            if name in leaf_classes:
                if arity:
                    fault = f"The leaf class {name!r} takes no operands, found {arity}."
                else:
                    check_leaf(name, text)
            elif name not in signature.index:
                fault = unknown("operator or leaf class", name, [*signature.names, *leaf_classes])
            elif arity < 1 or signature[name].arity not in (None, arity):
                remedy = "" if signature.words else " Nest longer sums and products: Add(Add(x, 1), y)."
                fault = f"{name!r} takes {operands([signature[name].arity])}, found {arity}.{remedy}"
            elif text is not None:
                fault = f"The operator {name!r} carries no text, found {text!r}."
            if not (missing or fault):
                fault = f"The tree is complete before node {i} of {self.size}; drop what follows it."
            if fault:
                break
            missing += arity - 1
        if fault or missing:
            raise ExpressionError(fault or f"The tree ends with {missing} operand(s) missing.")

    @classmethod
    def leaf(cls, kind: str, text: str | None = None, signature: Signature = MATH) -> Self:
        """A single leaf: `Expression.leaf("Symbol", "x")`, `Expression.leaf("Pi")`."""
        return cls((kind,), (signature.leaf_classes.get(kind) if text is None else text,), (0,), signature)

    @classmethod
    def node(cls, name: str, *children: "Expression") -> Self:
        """An operator over children: `Expression.node("Add", x, y)`."""
        # The arrays of the children are joined one by one: by `nodes` it takes a tenth longer.
        return cls(
            (name, *(inner for child in children for inner in child.names)),
            (None, *(text for child in children for text in child.texts)),
            (len(children), *(arity for child in children for arity in child.arities)),
            children[0].signature if children else MATH,
        )

    @classmethod
    def from_nodes(cls, nodes: Collection[Node], signature: Signature = MATH) -> Self:
        """A tree from (name, text, arity) per node in pre-order."""
        names, texts, arities = zip(*nodes, strict=True) if nodes else ((), (), ())
        return cls(tuple(names), tuple(texts), tuple(arities), signature)

    @classmethod
    def parse(cls, text: str, signature: Signature = MATH) -> Self:
        """Read text in the notation of the signature: infix text of mathematics, see `dgl_treestack.expression.infix`.

        Raises ExpressionError pointing at the column.
        """
        nodes = infix.read(text) if signature.notation == "infix" else notations.read(text, signature)[0]
        return cls.from_nodes(nodes, signature)

    @classmethod
    def from_prefix(cls, text: str, signature: Signature = MATH) -> Self:
        """Read the prefix form, as `prefix` writes it, of a tree of any depth."""
        return cls.from_nodes(notations.read_prefix(text, signature), signature)

    @classmethod
    def from_sympy(cls, value: "sympy.Basic") -> Self:
        """Convert a SymPy expression, n-ary sums and products nested to the right."""
        from dgl_treestack.expression.sympy import read

        return cls.from_nodes(read(value))

    def __str__(self) -> str:
        return infix.write(self) if self.signature.notation in ("infix", "prefix") else notations.write(self)

    def prefix(self) -> str:
        """Space-separated tokens in pre-order: `Add One:1 Symbol:x`."""
        signature, tokens = self.signature, []
        for name, text, arity in self.nodes:
            if text is None:
                tokens.append(f"{name}/{arity}" if signature[name].arity is None else name)
            elif text == signature.leaf_classes[name]:
                tokens.append(name)
            else:
                tokens.append(f"{name}:{notations.quoted(text, 'prefix')}")
        return " ".join(tokens)

    def to_sympy(self) -> "sympy.Basic":
        """The SymPy object of the same structure, unevaluated. Raises ExpressionError beyond depth 100."""
        from dgl_treestack.expression.sympy import write

        return write(self)

    @property
    def nodes(self) -> Iterator[Node]:
        """(name, text, arity) per node, in pre-order."""
        return zip(self.names, self.texts, self.arities, strict=True)

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

    @cached_property
    def operators_before(self) -> tuple[int, ...]:
        """Per node, and after the last one, the number of operators before it in pre-order."""
        return tuple(accumulate((text is None for text in self.texts), initial=0))

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
        for i, (name, text, _) in enumerate(self.nodes):
            if text is not None:
                yield i, name, text

    @property
    def blanks(self) -> tuple[int, ...]:
        """Indices of the nodes that are a blank `_`."""
        return tuple(i for i, name in enumerate(self.names) if name == "Blank")

    def subtree(self, i: int) -> "Expression":
        """The expression rooted at node i."""
        span, tree = slice(i, self.ends[i]), Expression.__new__(Expression)  # which checks nothing: the whole tree was checked
        names, texts, arities = self.names[span], self.texts[span], self.arities[span]
        tree.__dict__.update(names=names, texts=texts, arities=arities, signature=self.signature)
        return tree

    def recognised(self) -> "Expression":
        """This tree, which becomes an `Equation` if its root is the operator that relates two sides."""
        if self.names[0] != self.signature.root:
            return self
        equation = Equation.__new__(Equation)
        vars(equation).update(vars(self))
        return equation

    def replace(self, i: int, subtree: "Expression") -> Self:
        """A copy with another subtree at node i."""
        nodes = list(self.nodes)
        nodes[i : self.ends[i]] = subtree.nodes
        return self.from_nodes(nodes, self.signature)

    def with_variables(self, names: Mapping[str, str]) -> Self:
        """A copy with variables renamed; those that are not in `names` keep theirs."""
        texts = (names.get(leaf, leaf) if name == "Symbol" and leaf else leaf for name, leaf, _ in self.nodes)
        return type(self)(self.names, tuple(texts), self.arities, self.signature)


class Equation(Expression):
    """An expression rooted at `Equality`.

    >>> equation = Equation.parse("1 + tan(x)**2 = sec(x)**2")
    >>> equation.depth, str(equation.left), str(equation.right)
    (4, '1 + tan(x)**2', 'sec(x)**2')
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        root = self.signature.root
        if self.names[0] != root:
            remedy = "Put '=' between its two sides." if root == "Equality" else "Take Expression for other trees."
            raise ExpressionError(f"The root of an equation is {root!r}, not {self.names[0]!r}. {remedy}")

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
