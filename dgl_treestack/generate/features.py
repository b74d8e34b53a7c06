"""What a model without recursion can see of an equation: counts of tokens, of parent-child pairs, of tokens per side."""

from collections import Counter
from zlib import crc32

from dgl_treestack.expression import Expression

FEATURES = 1 << 24


def tokens(expression: Expression) -> list[str]:
    """Per node, its operator, or class and text of a leaf."""
    return [n if t is None else f"{n}:{t}" for n, t in zip(expression.names, expression.texts, strict=True)]


def pair_counts(expression: Expression) -> Counter[str]:
    """Tokens, and pairs of parent and child token."""
    labels = tokens(expression)
    counts, parents = Counter(labels), list[str]()
    for label, arity in zip(labels, expression.arities, strict=True):
        if parents:
            counts[f"{parents.pop()} > {label}"] += 1
        parents.extend([label] * arity)  # in pre-order, the innermost operator that still misses an operand is the parent
    return counts


def side_difference(expression: Expression) -> Counter[str]:
    """Per token, its count on the left minus its count on the right, and the absolute value of that."""
    labels, middle = tokens(expression), expression.ends[1]
    left, right = Counter(labels[1:middle]), Counter(labels[middle:])
    counts: Counter[str] = Counter()
    for label in {**left, **right}:
        counts[label] = left[label] - right[label]
        counts[f"|{label}|"] = abs(left[label] - right[label])
    return counts


def repetition(expression: Expression) -> Counter[str]:
    """How many different subtrees there are, and how many of them, leaves aside, stand on both sides."""
    known: dict[tuple, int] = {}
    done: list[int] = []
    sides: tuple[set[int], set[int]] = (set(), set())
    middle = expression.ends[1]
    for i in range(expression.size - 1, -1, -1):
        arity = expression.arities[i]
        key = (expression.names[i], expression.texts[i], *done[len(done) - arity :])
        del done[len(done) - arity :]
        number = known.setdefault(key, len(known))
        done.append(number)
        if arity and i:
            sides[i >= middle].add(number)
    return Counter(distinct=len(known), common=len(sides[0] & sides[1]))


def difference(true: Expression, false: Expression) -> dict[int, float]:
    """By how much members of a pair differ in tokens, parent-child pairs, side differences and repetition; hashed names number
    the features."""
    found: Counter[str] = Counter(pair_counts(true))
    found.subtract(pair_counts(false))
    repeated = Counter(repetition(true))
    repeated.subtract(repetition(false))
    found.update({f"subtrees {name}": count for name, count in repeated.items()})
    sides = Counter(side_difference(true))
    sides.subtract(side_difference(false))
    found.update({f"side {name}": count for name, count in sides.items()})
    return {crc32(name.encode()) % FEATURES: float(count) for name, count in sorted(found.items()) if count}
