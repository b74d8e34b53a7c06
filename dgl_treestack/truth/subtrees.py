"""Values of all distinct subtrees of a data set at complex points, in complex128, vectorised over the subtrees.

No label was certified at these points. They are targets of training, not evidence for or against an equation.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dgl_treestack.data.forest import Forest, columns
from dgl_treestack.data.wellformed import NO_OPERATOR
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import MATH
from dgl_treestack.truth.evaluation import Value, apply
from dgl_treestack.truth.points import REAL_POINTS, near_origin, uniform

UNKNOWN, DEFINED, UNDEFINED = 0, 1, 2
LARGEST_TARGET = 8.0
_DECIMALS = 6  # of targets of equal subtrees
_MIXER = np.uint64(0x9E3779B97F4A7C15)


@lru_cache(maxsize=4096)
def training_value(variable: str, point: int) -> complex:
    """Return the value of a variable at a point for training, to four decimals; `value_of` has others for labels."""
    return near_origin(*uniform(f"training:{variable}:{point}")[:2], REAL_POINTS)


class Targets(NamedTuple):
    """What training at nodes wants for each of S distinct subtrees, by the subtree ids of a forest (UNKNOWN for unused ids).

    value: (S, P, 2) float32, asinh of real and imaginary part at P points, at most `LARGEST_TARGET` in size; 0 unless defined.
    status: (S, P) int8, DEFINED, UNDEFINED, or UNKNOWN where complex128 cannot be trusted.
    value_class: (S,) int64, equal for subtrees with equal values at all points; -1 where a value is unknown or few are defined.
    """

    value: np.ndarray
    status: np.ndarray
    value_class: np.ndarray


def targets_of(forest: Forest, points: int) -> Targets:
    """Return the targets of all subtrees of a forest. Raises ConfigurationError if its language defines no values."""
    signature = forest.signature
    without = [operator.name for operator in signature.inner if operator.value is None]
    if without or (signature.words and signature.leaf_value is None):
        reason = f"the operator {without[0]!r} has none" if without else "its leaves have none (Signature.leaf_value)"
        raise ConfigurationError(
            f"Signals at nodes need values, and in the language {signature.name!r} {reason}. Leave out [signals]."
        )
    ids, count = np.unique(forest.subtree), int(forest.subtree.max(initial=-1)) + 1
    value, status = np.zeros((count, points, 2), np.float32), np.full((count, points), UNKNOWN, np.int8)
    key = np.zeros(count, np.uint64)
    for point, (number, status_of_id) in enumerate(values_at_points(forest, range(points))):
        squashed = np.arcsinh(np.nan_to_num(number).view(float).reshape(-1, 2))
        squashed[status_of_id != DEFINED] = 0.0
        value[ids, point], status[ids, point] = np.clip(squashed, -LARGEST_TARGET, LARGEST_TARGET), status_of_id
        for part in (status_of_id, *np.rint(squashed * 10**_DECIMALS).T):
            mixed = (key[ids] ^ part.astype(np.int64).view(np.uint64)) * _MIXER
            key[ids] = mixed ^ (mixed >> np.uint64(29))
    _, value_class = np.unique(key, return_inverse=True)
    value_class[(status == UNKNOWN).any(1) | ((status == DEFINED).sum(1) < (points + 1) // 2)] = -1
    return Targets(value, status, value_class)


def values_at_points(forest: Forest, points: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, point by point, the values (S,) complex128 and their status (S,) of the subtrees of a forest, in order of ids."""
    signature, nodes = forest.signature, columns(forest, forest.signature)
    _, first, place = np.unique(nodes.subtree, return_index=True, return_inverse=True)  # a node of every subtree
    operator = nodes.op[first]
    children = np.where(nodes.children[first] >= 0, place[nodes.children[first]], -1)
    is_equation = operator == signature.root_index
    leaves = np.flatnonzero(operator == NO_OPERATOR)
    leaf_of_subtree = {subtree: forest.leaves[forest.leaf[first[subtree]]] for subtree in leaves.tolist()}
    # subtrees of mathematics without variables are exact where complex128 is in doubt
    value_of_subtree = {
        subtree: Value(*leaf) for subtree, leaf in leaf_of_subtree.items() if signature is MATH and leaf[0] != "Symbol"
    }
    for subtree in range(len(operator)) if value_of_subtree else ():  # an operator has a larger id than its children
        if operator[subtree] != NO_OPERATOR and not is_equation[subtree]:
            operands = [value_of_subtree.get(child) for child in children[subtree].tolist() if child >= 0]
            if all(operands):
                value_of_subtree[subtree] = Value(MATH.names[operator[subtree]], None, tuple(filter(None, operands)))
    constants = np.array([*value_of_subtree], dtype=np.int64)
    constant = np.array([value.number[0] for value in value_of_subtree.values()], dtype=complex)
    in_doubt = np.array([value.doubt[0] for value in value_of_subtree.values()], dtype=bool) & ~np.isnan(constant)
    is_computed = ~is_equation & (operator != NO_OPERATOR)
    is_computed[constants] = False
    # subtrees (n,) that are computed at once, their operator, and their arguments (A, n), children first
    computed, arity, height = np.flatnonzero(is_computed), (children >= 0).sum(1), nodes.height[first]
    order = computed[np.lexsort((operator[computed], arity[computed], height[computed]))]
    keys = np.stack([height[order], arity[order], operator[order]], axis=1)
    parts = np.split(order, np.flatnonzero((keys[1:] != keys[:-1]).any(1)) + 1)
    groups = [(operator[part[0]], part, children[part, : arity[part[0]]].T) for part in parts if len(part)]
    is_constant = np.isin(np.arange(len(first)), constants)
    varying = {subtree: text for subtree, (_, text) in leaf_of_subtree.items() if not is_constant[subtree]}
    for point in points:
        number, unknown = np.full(len(first), np.nan, complex), np.zeros(len(first), bool)
        for subtree, text in varying.items():
            number[subtree] = (signature.leaf_value or training_value)(text, point)
        number[constants], unknown[constants] = constant, in_doubt  # exact, but what is computed from it may not be
        for op, group, arguments in groups:
            values, is_unknown, value_of = number[arguments], unknown[arguments], signature.operators[op].value
            if signature is MATH:
                result, doubt = apply(MATH.names[op], list(values), [np.zeros(len(group), bool)] * len(values))
            else:
                assert value_of is not None
                result, doubt = np.asarray(value_of(*values), complex), np.zeros(len(group), bool)
            undefined = (np.isnan(values) & ~is_unknown).any(0)  # for certain, whatever the other arguments are
            result[undefined] = np.nan
            doubt &= ~np.isnan(result)  # infinity, a pole or an overflow is no matter of rounding
            number[group], unknown[group] = result, (doubt | is_unknown.any(0)) & ~undefined
        unknown[constants] = False
        status = np.where(unknown | is_equation, UNKNOWN, np.where(np.isnan(number), UNDEFINED, DEFINED))
        yield number, status.astype(np.int8)
