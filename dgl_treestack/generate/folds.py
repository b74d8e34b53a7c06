"""What counts as the same equation, and which fold a family of equations belongs to.

Two equations are the same when they differ only in the order and nesting of sums and products, in which side is left, in
how a constant is written (`1` and `one`), or in the names of the variables.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import permutations

from dgl_treestack.expression import Expression, leaf_value

RENAMED_VARIABLES = 4  # up to so many variables every renaming is tried; beyond, only the order of first occurrence
_FLAT = ("Add", "Mul")
_BYTES = 10


def canonical_key(expression: Expression) -> str:
    """A digest that is the same for expressions that are the same in the sense of this module.

    >>> canonical_key(Expression.parse("x + 1 = y")) == canonical_key(Expression.parse("x = one + y"))
    True
    """
    variables = list(dict.fromkeys(text for _, kind, text in expression.leaves() if kind == "Symbol"))
    orders: Sequence = list(permutations(variables)) if len(variables) <= RENAMED_VARIABLES else [variables]
    return min(_digest(expression, {name: str(i) for i, name in enumerate(order)}) for order in orders).hex()


def _digest(expression: Expression, renamed: Mapping[str, str]) -> bytes:
    """Digests from the leaves up; a sum's or product's terms are collected until something else stands above them."""
    done: list[tuple[str, list[bytes]]] = []
    for i in range(expression.size - 1, -1, -1):
        name, text, arity = expression.names[i], expression.texts[i], expression.arities[i]
        if text is not None:
            done.append((name, [_hash(_leaf(name, text, renamed))]))
            continue
        children = [done.pop() for _ in range(arity)]
        if name in _FLAT:
            terms: list[bytes] = []
            for child in children:
                terms = terms + child[1] if child[0] == name else [*terms, _close(child)]
            done.append((name, terms))
        else:
            closed = [_close(child) for child in children]
            ordered = sorted(closed) if name == "Equality" else closed
            done.append((name, [_hash(name.encode() + b"(" + b"".join(ordered))]))
    return _close(done[0])


def _close(part: tuple[str, list[bytes]]) -> bytes:
    name, terms = part
    return _hash(name.encode() + b"(" + b"".join(sorted(terms))) if name in _FLAT else terms[0]


def _leaf(kind: str, text: str, renamed: Mapping[str, str]) -> bytes:
    if kind == "Symbol":
        return b"$" + renamed[text].encode()
    value = leaf_value(kind, text)
    return f"{kind}".encode() if value is None else str(value).encode()


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=_BYTES).digest()


def fold_of(family: str, shares: Mapping[str, float]) -> str:
    """The fold of a family, from its key alone, so that the same family is in the same fold of every data set.

    shares: fold -> weight. Equal shares and key give the same fold on every machine.
    """
    place = int.from_bytes(_hash(family.encode())[:6], "big") / 2**48 * sum(shares.values())
    for fold, share in shares.items():
        place -= share
        if place < 0:
            return fold
    return fold
