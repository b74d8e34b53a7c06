"""Canonical keys, which define when equations are the same, and the fold and partition of an equation.

Two equations are the same when they differ only in the order and nesting of sums and products, in padding (`+ 0`, `*1`, `**1`),
in which side is left, in how a constant is written (`1` and `one`), or in the names of the variables.

A tree is digested from the leaves up. The terms of a sum or product are collected in a list until another operator is reached;
then they are sorted and hashed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import permutations

from dgl_treestack.expression import Expression, leaf_value
from dgl_treestack.generate.nodes import Node

RENAMED_VARIABLES = 4  # up to so many variables all renamings are tried; with more, only the order of first occurrence
_NEUTRAL_VALUE = {"Add": 0, "Mul": 1}
KEY_BYTES = 10
_MEMORY = "digests"  # the cache key of a node's digests, by the new names of its variables

# Preset family -> its share of all canonical keys. Presets of different families never contain the same equation, for any seeds
# and sizes: one family is for training sets, the other for pure test sets.
PARTITIONS = {"paper": 0.7, "deep": 0.3}

Digest = tuple[str, list[bytes]]  # operator or leaf class at the root; digests of the terms of a sum or product, else one
Renaming = Mapping[str, str]


def canonical_key(expression: Expression) -> str:
    """Return a key that is equal for expressions that are the same in the sense of this module.

    >>> canonical_key(Expression.parse("x*1 + 1 = y")) == canonical_key(Expression.parse("x = one + y"))
    True
    """
    variables = tuple(dict.fromkeys(text for _, kind, text in expression.leaves() if kind == "Symbol"))
    keys = []
    for renaming in _renamings(variables):
        stack: list[Digest] = []
        for i in range(expression.size - 1, -1, -1):
            name, text, arity = expression.names[i], expression.texts[i], expression.arities[i]
            if text is None:
                stack.append(_operator(name, [stack.pop() for _ in range(arity)]))
            else:
                stack.append((name, [_leaf(name, renaming[text] if name == "Symbol" else text)]))
        keys.append(_closed(stack[0]))
    return min(keys).hex()


def key_of(root: Node) -> str:
    """Return the canonical key of an equation, or of one of its sides. Shared subtrees are digested once."""
    return min(_closed(_of_node(root, renaming)) for renaming in _renamings(root.variables)).hex()


def _renamings(variables: Sequence[str]) -> Iterator[Renaming]:
    """Yield the renamings of variables, listed by first occurrence; the smallest key over them is the canonical one."""
    orders: Iterable[Sequence[str]] = permutations(variables) if len(variables) <= RENAMED_VARIABLES else [variables]
    return ({name: str(i) for i, name in enumerate(order)} for order in orders)


def _of_node(node: Node, renaming: Renaming) -> Digest:
    """Return the digest of a node, computed once per renaming of its variables."""
    names = tuple([renaming[name] for name in node.variables])
    digests: dict[tuple[str, ...], Digest] | None = node.memory.get(_MEMORY)
    if digests is None:
        digests = node.memory[_MEMORY] = {}
    if names not in digests:
        if node.text is None:
            digests[names] = _operator(node.name, [_of_node(child, renaming) for child in node.children])
        else:
            digests[names] = node.name, [_leaf(node.name, renaming[node.text] if node.name == "Symbol" else node.text)]
    name, terms = digests[names]
    return name, [*terms]  # a copy, as `_operator` extends the lists of its children


def _operator(name: str, children: list[Digest]) -> Digest:
    """Return the digest of an operator over its children, whose lists of terms it may extend."""
    if name not in _NEUTRAL:
        if name == "Pow" and children[1][1] == [_NEUTRAL["Mul"]]:
            return children[0]
        digests = [_closed(child) for child in children]
        if name == "Equality":
            digests.sort()
        return name, [_hash(name.encode() + b"(" + b"".join(digests))]
    neutral = _NEUTRAL[name]
    operands = [child for child in children if child[1] != [neutral]]
    if len(operands) < 2:
        return operands[0] if operands else ("", [neutral])
    first, second = (terms if operator == name else [_closed((operator, terms))] for operator, terms in operands)
    long, short = (first, second) if len(first) > len(second) else (second, first)
    long.extend(short)  # in place, so that a chain of sums takes linear time
    return name, long


def _closed(digest: Digest) -> bytes:
    """Return the hash of a tree to which no more terms are added."""
    name, terms = digest
    return _hash(name.encode() + b"(" + b"".join(sorted(terms))) if name in _NEUTRAL else terms[0]


@lru_cache(maxsize=4096)
def _leaf(kind: str, text: str) -> bytes:
    """Return the hash of a leaf: of its value, or of a variable's new name."""
    if kind == "Symbol":
        return _hash(b"$" + text.encode())
    value = leaf_value(kind, text)
    return _hash(f"{kind}".encode() if value is None else str(value).encode())


def _hash(content: bytes) -> bytes:
    return blake2b(content, digest_size=KEY_BYTES).digest()


_NEUTRAL = {name: _hash(str(value).encode()) for name, value in _NEUTRAL_VALUE.items()}


def in_partition(key: str, name: str) -> bool:
    """Return whether a canonical key belongs to a family of presets, `paper` or `deep`."""
    return fold_of(key, PARTITIONS) == name


def fold_of(family: str, shares: Mapping[str, float]) -> str:
    """Return the fold of a family. It depends on the key alone, so a family is in the same fold of every data set.

    shares: fold -> weight. Equal shares and key give the same fold on every machine.
    """
    # A key is the least of several, so it is hashed again to be uniform: parted by the key itself, 0.4 % of the equations in
    # three variables were in a family that should have 40 %.
    fraction = int.from_bytes(_hash(family.encode())[:6], "big") / 2**48
    remainder = fraction * sum(shares.values())
    for fold, share in shares.items():
        remainder -= share
        if remainder < 0:
            return fold
    return fold
