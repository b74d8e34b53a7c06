"""From raw pairs to a data set without duplicates, leaks between folds, or local features that predict the label.

The pairs of a block, in the order of its cells, pass four gates.
    new         an earlier pair of any block with the same canonical key drops a pair
    held out    a training pair has no side of depth 2 or more of a validation or test equation of depth 4 or more (at depth 3
                there are too few such sides)
    balanced    a linear model over local features (tokens, parent-child pairs, tokens per side, repeated subtrees), fitted to
                other pairs, favours the true member about as often as the false one; whole surplus pairs are dropped
    counted     no more pairs per fold and depth than planned

A block is in memory while it is added. Of those before, their keys are, sorted, in 10 bytes each, the sides that are held out,
and the rows of the chosen pairs.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import csr_matrix

from dgl_treestack.expression import Expression
from dgl_treestack.generate.folds import KEY_BYTES
from dgl_treestack.generate.presets import Parts

GROUP_STARTS = (3, 5, 8, 14, 20)  # depth groups that are balanced within themselves: 1-2, 3-4, 5-7, 8-13, 14-19, 20 and more

KEY = np.dtype(f"S{KEY_BYTES}")
# Evaluation equations up to this depth may share sides with training equations. To hold these out too dropped 4,227 of
# 10,331 pairs of depth 3, for 3 % of the test equations.
SMALL = 3

BINS = 8
PARTS = 5
STRENGTH = 0.1  # of the regression, as scikit-learn's C
FEATURES = 1 << 24
FEWEST = 40  # minimum pairs of a depth group to fit a model; a smaller group is kept as it is

Difference = tuple[np.ndarray, np.ndarray]  # features, and their values in the true member minus those in the false one


class PlanCell(NamedTuple):
    """The unit of a plan: a block of pairs that are balanced together, a fold, a depth."""

    block: int
    fold: str
    depth: int


@dataclass
class Assembly:
    """Blocks added one after the other; evaluation folds come first, so that training never changes them.

    balanced: a digest of a block's pairs -> indices of those that `balanced` keeps, which the next round of shards uses again.
    chosen: cell -> part -> rows of the pairs to keep. raw_pairs: cell -> their number. new: cell -> number of pairs that passed
    the first two gates. dropped: (gate, depth) -> number of pairs that the gate dropped. held_out: sides that no training pair
    may have. keys: of all pairs so far, sorted; a Python set would take ten times the memory.
    """

    parts: Parts
    seed: int
    balanced: dict[bytes, np.ndarray]
    chosen: dict[PlanCell, dict[str, "array[int]"]] = field(default_factory=dict)
    raw_pairs: Counter[PlanCell] = field(default_factory=Counter)
    new: Counter[PlanCell] = field(default_factory=Counter)
    dropped: Counter[tuple[str, int]] = field(default_factory=Counter)
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, KEY))
    held_out: set[bytes] = field(default_factory=set)

    def add(self, block: int, names: Mapping[PlanCell, Sequence[str]], plan: Mapping[PlanCell, int]) -> None:
        """Add a block. names: cell -> its parts, in order. plan: cell -> number of pairs."""
        keys = set[bytes]()  # of the pairs of this block so far
        raw = list[tuple[tuple[str, int], PlanCell, Difference]]()  # part and row, cell and local features of a pair
        parts_of_plan = [(cell, name) for cell in plan for name in names.get(cell, ())]
        for cell, name in parts_of_plan:
            # parts are read again in every round, 30 us a pair; in memory a pair takes 1.5 KB
            keys_of_rows, sides_of_rows, differences = [], [], list[Difference]()
            for pair in self.parts.rows(name):
                keys_of_rows.append(tuple(map(bytes.fromhex, pair["keys"])))
                sides_of_rows.append(tuple(map(bytes.fromhex, pair["sides"])))
                features, values = pair["difference"]
                differences.append((np.array(features, np.int32), np.array(values, np.float32)))
            sought, is_known = np.array(keys_of_rows, KEY).reshape(-1, 2), np.zeros(len(keys_of_rows), bool)
            if len(self.keys):
                places = np.minimum(np.searchsorted(self.keys, sought), len(self.keys) - 1)
                is_known = (self.keys[places] == sought).any(axis=1)
            self.raw_pairs[cell] += len(keys_of_rows)
            for number, (keys_of_pair, sides) in enumerate(zip(keys_of_rows, sides_of_rows, strict=True)):
                if is_known[number] or not keys.isdisjoint(keys_of_pair):
                    self.dropped["duplicate", cell.depth] += 1
                elif cell.fold == "train" and not self.held_out.isdisjoint(sides):
                    self.dropped["side of an evaluation equation", cell.depth] += 1
                else:
                    keys.update(keys_of_pair)
                    if cell.fold != "train" and cell.depth > SMALL:
                        self.held_out.update(sides)
                    self.new[cell] += 1
                    raw.append(((name, number), cell, differences[number]))
        new_keys = np.sort(np.array([*keys], KEY))
        self.keys = np.insert(self.keys, np.searchsorted(self.keys, new_keys), new_keys)
        digest = hashlib.sha256(repr((block, [place for place, *_ in raw])).encode()).digest()
        if digest not in self.balanced:
            groups = [sum(cell.depth >= start for start in GROUP_STARTS) for _, cell, _ in raw]
            rng = np.random.default_rng(np.random.SeedSequence([self.seed, block]))
            indices = balanced([difference for *_, difference in raw], groups, rng)
            self.balanced[digest] = indices.astype(np.int32)
        balanced_indices = set(self.balanced[digest].tolist())
        self.chosen.update({cell: {} for cell in plan})
        counts = Counter[PlanCell]()
        for i, ((name, row), cell, _) in enumerate(raw):
            if i not in balanced_indices:
                self.dropped["balance", cell.depth] += 1
            elif counts[cell] >= plan[cell]:
                self.dropped["more than planned", cell.depth] += 1
            else:
                counts[cell] += 1
                self.chosen[cell].setdefault(name, array("I")).append(row)


def balanced(
    differences: Sequence[Difference], groups: Sequence[int], rng: np.random.Generator, tolerance: float = 1.5
) -> np.ndarray:
    """Return the indices of the pairs to keep, in order.

    groups: per pair, the depth group within which it is balanced. tolerance: maximum ratio of the frequencies of the two signs
    of the score, in each bin of its absolute value.
    """
    from sklearn.linear_model import LogisticRegression  # takes a second to load, and worker processes do not need it

    if not differences:
        return np.zeros(0, int)
    features, values = (np.concatenate(arrays) for arrays in zip(*differences, strict=True))
    names, columns = np.unique(features, return_inverse=True)
    ends = np.cumsum([0, *(len(row) for row, _ in differences)])
    rows = csr_matrix((values, columns, ends), shape=(len(differences), max(1, len(names))))
    keep = np.ones(len(differences), bool)
    for group in np.unique(groups):
        pairs = np.flatnonzero(np.asarray(groups) == group)
        if len(pairs) < FEWEST:
            continue
        # per pair the score of the true member minus that of the false one, from a model that has not seen the pair
        rows_of_group, part, margin = rows[pairs], rng.permutation(len(pairs)) % PARTS, np.zeros(len(pairs))
        for held_out in range(PARTS):
            train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
            # without intercept, the linear score of a difference changes sign when the members are exchanged
            signs = np.where(rng.random(len(train)) < 0.5, 1.0, -1.0)
            model = LogisticRegression(C=STRENGTH, fit_intercept=False, max_iter=300)
            model.fit(rows_of_group[train].multiply(signs[:, None]).tocsr(), signs > 0)
            margin[test] = rows_of_group[test] @ model.coef_[0]
        margin = margin.round(6)  # between processors, margins differ by 2e-11
        for members in np.array_split(np.argsort(np.abs(margin), kind="stable"), BINS):
            positive, negative = members[margin[members] > 0], members[margin[members] < 0]
            for many, few in ((positive, negative), (negative, positive)):
                surplus = len(many) - int(tolerance * len(few))
                if surplus > 0:
                    keep[pairs[rng.choice(many, size=surplus, replace=False)]] = False
    return np.flatnonzero(keep)


def tokens(expression: Expression) -> list[str]:
    """Return per node its operator, or class and text of a leaf."""
    return [n if t is None else f"{n}:{t}" for n, t in zip(expression.names, expression.texts, strict=True)]


def pair_counts(expression: Expression) -> Counter[str]:
    """Count tokens, and pairs of parent and child token."""
    labels = tokens(expression)
    counts, parents = Counter(labels), list[str]()
    for label, arity in zip(labels, expression.arities, strict=True):
        if parents:
            counts[f"{parents.pop()} > {label}"] += 1
        parents.extend([label] * arity)  # in pre-order, the innermost operator that still lacks an operand is the parent
    return counts


def side_difference(expression: Expression) -> Counter[str]:
    """Return per token its count on the left minus its count on the right, and the absolute value of that."""
    labels, middle = tokens(expression), expression.ends[1]
    left, right = Counter(labels[1:middle]), Counter(labels[middle:])
    counts: Counter[str] = Counter()
    for label in {**left, **right}:
        counts[label] = left[label] - right[label]
        counts[f"|{label}|"] = abs(left[label] - right[label])
    return counts


def repetition(expression: Expression) -> Counter[str]:
    """Count the distinct subtrees, and those, except leaves, that occur on both sides."""
    # before pairs were balanced by these, 17 % of the true members at depths 5-7 had more in common, 7 % of the false ones
    ids: dict[tuple, int] = {}  # operator or leaf, and the ids of its children -> id of the distinct subtree
    stack: list[int] = []
    sides: tuple[set[int], set[int]] = (set(), set())
    middle = expression.ends[1]
    for i in range(expression.size - 1, -1, -1):
        arity = expression.arities[i]
        key = (expression.names[i], expression.texts[i], *stack[len(stack) - arity :])
        del stack[len(stack) - arity :]
        subtree = ids.setdefault(key, len(ids))
        stack.append(subtree)
        if arity and i:
            sides[i >= middle].add(subtree)
    return Counter(distinct=len(ids), common=len(sides[0] & sides[1]))


def difference(true: Expression, false: Expression) -> dict[int, float]:
    """Return the features of the true member of a pair minus those of the false one, without zeros.

    The index of a feature is a hash of its name, from 0 to `FEATURES` - 1; the order is that of the names.
    """
    counts: Counter[str] = Counter()
    for prefix, features in (("", pair_counts), ("subtrees ", repetition), ("side ", side_difference)):
        change = features(true)
        change.subtract(features(false))
        counts.update({f"{prefix}{name}": count for name, count in change.items()})
    return {crc32(name.encode()) % FEATURES: float(count) for name, count in sorted(counts.items()) if count}
