"""What counts as the same equation, and which fold and partition an equation belongs to.

Two equations are the same when they differ only in the order and nesting of sums and products, in padding (`+ 0`, `*1`, `**1`),
in which side is left, in how a constant is written (`1` and `one`), or in the names of the variables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import permutations

from dgl_treestack.expression import Expression, leaf_value

RENAMED_VARIABLES = 4  # up to so many variables every renaming is tried; beyond, only the order of first occurrence
_NEUTRAL_VALUE = {"Add": 0, "Mul": 1}
_BYTES = 10

# Preset family -> its part of all canonical keys. Presets of different families never hold the same equation, whatever their
# seeds and sizes: what is trained on lies in one, what only tests in the other.
PARTITIONS = {"paper": (0.0, 0.7), "deep": (0.7, 1.0)}

Part = tuple[str, list[bytes]]  # what stands at the root, and the digests of a sum's or product's terms
Renaming = Mapping[str, str]


def canonical_key(expression: Expression) -> str:
    """A digest that is the same for expressions that are the same in the sense of this module.

    >>> canonical_key(Expression.parse("x*1 + 1 = y")) == canonical_key(Expression.parse("x = one + y"))
    True
    """
    variables = dict.fromkeys(text for _, kind, text in expression.leaves() if kind == "Symbol")
    return min(_digest(expression, renamed) for renamed in renamings(tuple(variables))).hex()


def renamings(variables: Sequence[str]) -> Iterator[Renaming]:
    """The renamings of variables, given by first occurrence, among which the smallest digest is chosen."""
    orders: Iterable[Sequence[str]] = permutations(variables) if len(variables) <= RENAMED_VARIABLES else [variables]
    return ({name: str(i) for i, name in enumerate(order)} for order in orders)


def _digest(expression: Expression, renamed: Renaming) -> bytes:
    """Digests from the leaves up; a sum's or product's terms are collected until something else stands above them."""
    done: list[Part] = []
    for i in range(expression.size - 1, -1, -1):
        name, text, arity = expression.names[i], expression.texts[i], expression.arities[i]
        done.append(leaf_part(name, text, renamed) if text is not None else part(name, [done.pop() for _ in range(arity)]))
    return close(done[0])


def leaf_part(name: str, text: str, renamed: Renaming) -> Part:
    """The part of a leaf."""
    return name, [_leaf_digest("$", renamed[text]) if name == "Symbol" else _leaf_digest(name, text)]


def part(name: str, children: list[Part]) -> Part:
    """The part of an operator; the children's terms are used up."""
    if name in _NEUTRAL:
        return _flat(name, children)
    if name == "Pow" and children[1][1] == [_NEUTRAL["Mul"]]:
        return children[0]
    closed = [close(child) for child in children]
    ordered = sorted(closed) if name == "Equality" else closed
    return name, [_hash(name.encode() + b"(" + b"".join(ordered))]


def _flat(name: str, children: Sequence[Part]) -> Part:
    """A sum or product with the terms of sums or products below it, without neutral ones."""
    neutral = _NEUTRAL[name]
    kept = [child for child in children if child[1] != [neutral]]
    if len(kept) < 2:
        return kept[0] if kept else ("", [neutral])
    first, second = (child[1] if child[0] == name else [close(child)] for child in kept)
    long, short = (first, second) if len(first) > len(second) else (second, first)
    long.extend(short)  # in place, so that a chain of sums takes linear time
    return name, long


def close(part: Part) -> bytes:
    """The digest of a part that nothing can be added to any more."""
    name, terms = part
    return _hash(name.encode() + b"(" + b"".join(sorted(terms))) if name in _NEUTRAL else terms[0]


@lru_cache(maxsize=4096)
def _leaf_digest(kind: str, text: str) -> bytes:
    if kind == "$":
        return _hash(b"$" + text.encode())
    value = leaf_value(kind, text)
    return _hash(f"{kind}".encode() if value is None else str(value).encode())


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=_BYTES).digest()


_NEUTRAL = {name: _hash(str(value).encode()) for name, value in _NEUTRAL_VALUE.items()}


def in_partition(key: str, name: str) -> bool:
    """Whether a canonical key belongs to a family of presets, `paper` or `deep`."""
    low, high = PARTITIONS[name]
    return low <= _place(key) < high


def _place(key: str) -> float:
    """A number from 0 to 1. A key is the least of several digests, so it is hashed once more to be spread evenly."""
    return int.from_bytes(_hash(key.encode())[:6], "big") / 2**48


def fold_of(family: str, shares: Mapping[str, float]) -> str:
    """The fold of a family, from its key alone, so that the same family is in the same fold of every data set.

    shares: fold -> weight. Equal shares and key give the same fold on every machine.
    """
    place = _place(family) * sum(shares.values())
    for fold, share in shares.items():
        place -= share
        if place < 0:
            return fold
    return fold
