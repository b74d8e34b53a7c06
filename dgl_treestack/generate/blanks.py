"""Blanks: true equations, nodes of them that may be blanked, expressions that might fill a blank, and which of them do.

A *blank* is a node of an equation that a model predicts. A filler is *right* if the equation holds with it, even if it differs
from the original subtree: both x and -x fill `_**2 = x**2`. `fills` implements this definition.

Candidates are divided into classes: the same class means certified equal, different classes certified different. A candidate
that agrees with a class at some points only (`sqrt(x**2)` and `x`) is refused, and so is one that is not defined at every point
of `truth`. All members of a class equal its first one at all points, so a verdict on the first member is true of all.

Candidates are compared, and blanks filled, at all points at once: in complex128, rounded from 80 digits where complex128 cannot
be trusted. What differs clearly at three quarters of the points is different; `truth` judges the few others one by one, so it
alone decides what is equal or right. In an equation too ill-conditioned for complex128, the truth itself can be rejected; its
class is then not among the right ones.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product, repeat
from typing import Any

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.grow import BINARY, CONSTANTS, UNARY, Grower, Habits
from dgl_treestack.generate.nodes import Node, Pool, find, path_to, to_expression, verdict_on
from dgl_treestack.generate.presets import Cell, Deal, Row, pick
from dgl_treestack.generate.rewrite import instantiate, rule_index
from dgl_treestack.truth import POINTS, REFUTED_SHARE, Verdict, judge_at_fixed_points, relative_gap

VARIABLES = ("x", "y", "z")  # of every blanked equation, in order of occurrence
PARTITION = "deep"
MOST_RIGHT = 20  # maximum right classes of a blank; with more it is too easy
BLANKS_FILE = "blanks.jsonl.gz"
# A blank that one of these fills can be filled with anything, as in 0*_ = 0, and is not a question.
_PROBES = tuple(map(Expression.parse, ("Float(0.37)", "x*Float(1.9) - sin(Float(0.6)*x)")))
CLEARLY = 1e-6  # the relative gap above which `truth` calls values different
_BINARY_SHARE = 0.6  # of the operators of a random expression, about as in derived ones
_CONSTANT_SHARE = 0.3
_EXPANSION_SHARE = 0.15
_NOISE = 1e-9  # two values below this may both be zero


def true_equations(rng: np.random.Generator, depth: int, attempts: int, variables: int = 0) -> Iterator[tuple[Equation, Row]]:
    """Yield different equations in `VARIABLES` of exactly this depth, derived and certified, from at most `attempts`.

    With each, yield the start of the row of its blank: `equation`, `keys`, and the `certificate`, which has the axiom at the
    root of the derivation. variables: number of variables in an equation; 0 for any number from one on.
    """
    weights = tuple(float(count == variables) for count in (1, 2, 3)) if variables else Habits().variables
    grower, seen = Grower(rng, Habits(variables=weights)), set[str]()
    for _ in range(attempts):
        start = grower.start()
        grown = grower.grow(start, depth) if start.root.depth <= depth else None
        if grown is None or not 1 <= len(names := grown.root.variables) <= len(VARIABLES):
            continue
        equation = to_expression(grown.root, Equation).with_variables(dict(zip(names, VARIABLES, strict=False)))
        key = canonical_key(equation)
        if key in seen or not in_partition(key, PARTITION):
            continue
        seen.add(key)
        verdict = judge_at_fixed_points(equation)
        if verdict.verdict == "holds" and variables in (0, len(names)):
            certificate = {**verdict.certificate, "axiom": start.steps[0][1]}
            yield equation, {"equation": equation.prefix(), "keys": [key], "certificate": certificate}


def places_of_depth(equation: Equation, depth: int, side: str = "") -> list[int]:
    """Return the nodes whose subtree has the depth. side: `left`, `right`, or empty for both."""
    middle = equation.ends[1]
    nodes = {"left": range(1, middle), "right": range(middle, equation.size), "": range(1, equation.size)}[side]
    return [node for node in nodes if equation.heights[node] == depth]


def fills(equation: Equation, blank: int, candidate: Expression) -> Verdict:
    """Return the verdict on the equation with `candidate` at node `blank`; the candidate is right if it holds.

    >>> fills(Equation.parse("x**2 = x*x"), 2, Expression.parse("-x")).verdict
    'holds'
    """
    return judge_at_fixed_points(equation.replace(blank, candidate))


def is_question(equation: Equation, blank: int) -> bool:
    """Return whether the blank restricts its fillers: two arbitrary ones are refuted."""
    return all(fills(equation, blank, probe).verdict == "refuted" for probe in _PROBES)


def questions(pool: Pool, classes: dict[Node, str], blanks: Iterable[Row], candidates: str) -> Iterator[Row]:
    """Yield the rows of blanks for `Deal`, with all classes that are right for them.

    classes: candidate in the pool -> its class. blanks: of each, `equation` in prefix form, `blank`, `certificate`, `keys` and
    `cell`. candidates: the file of the candidates.
    """
    fillings = Fillings(pool, classes)
    for row in blanks:
        equation, blank, unfit = Equation.from_prefix(row["equation"]), row["blank"], ""
        value_class, fit = classes.get(pool.tree(equation.subtree(blank)), ""), fillings.fit(equation, blank)
        if not value_class:
            unfit = "truth without a certified class"
        elif value_class not in fit["right"]:
            unfit = "truth not confirmed among the candidates"
        elif len(fit["right"]) > MOST_RIGHT:
            unfit = "fits too much"
        certificate = {**row["certificate"], "candidates": candidates, **fit}
        example = Example(equation, 1, "", "test", certificate=certificate, blank=blank, value_class=value_class)
        yield {"keys": row["keys"], "cell": row["cell"], "lines": [to_dict(example)], "unfit": unfit}


def kept(rows: Iterable[Row], plan: Mapping[Cell, int], title: str) -> tuple[list[Row], Row]:
    """Return the lines of the blanks to keep, no more than planned in any cell, and notes. title: format of a cell's name."""
    dealt = Deal(rows, {cell: repeat("test", count) for cell, count in plan.items()}, "b")
    lines, short = dealt.lines["test"], Counter(plan) - dealt.kept
    notes = {
        "kept": {title.format(*cell): dealt.kept[cell] for cell in plan},
        "dropped": counted(dealt.dropped.elements()),
        "blanks by number of right classes": counted(len(line["certificate"]["right"]) for line in lines),
    }
    return lines, notes | ({"short of the plan": {title.format(*cell): n for cell, n in short.items()}} if short else {})


def counted(items: Iterable[Any]) -> dict[str, int]:
    """Return how often each item occurs, in the order of the items."""
    counts = Counter(items)
    return {str(item): counts[item] for item in sorted(counts)}


class Filler:
    """Makes fillers over a set of variables in one pool from one random stream."""

    def __init__(self, variables: Sequence[str], rng: np.random.Generator):
        self.pool, self.rng = Pool(), rng
        self.variables = [self.pool.leaf("Symbol", name) for name in variables]
        self.leaves = [*self.variables, *(self.pool.leaf(*constant) for constant in CONSTANTS)]

    def simple(self) -> Iterator[Node]:
        """Yield all leaves and all expressions of depth 1."""
        yield from self.leaves
        for name, leaf in product(UNARY, self.leaves):
            yield self.pool.node(name, leaf)
        for name, first, second in product(BINARY, self.leaves, self.leaves):
            yield self.pool.node(name, first, second)

    def drawn(self, depth: int) -> Node:
        """Draw an expression of exactly this depth: one deep branch and small ones, as in derived expressions."""
        if depth == 0:
            is_constant = self.rng.random() < _CONSTANT_SHARE
            return pick(self.leaves[len(self.variables) :] if is_constant else self.variables, self.rng)
        if self.rng.random() >= _BINARY_SHARE:
            return self.pool.node(pick(UNARY, self.rng), self.drawn(depth - 1))
        small = self.drawn(min(depth - 1, int(self.rng.geometric(0.52)) - 1))
        operands = (self.drawn(depth - 1), small)
        return self.pool.node(pick(BINARY, self.rng), *(operands if self.rng.random() < 0.5 else operands[::-1]))

    def near_miss(self, node: Node) -> Node | None:
        """Exchange one operator or leaf, or swap two subtrees. Returns None unless another tree of the same depth results."""
        if self.rng.random() < 0.5:
            index = int(self.rng.integers(node.size))
            children = find(node, index).children
            names = UNARY if len(children) == 1 else BINARY
            new = self.pool.node(pick(names, self.rng), *children) if children else self.drawn(0)
            changed = self.pool.replace(node, index, new)
        else:
            early, late = sorted(int(index) for index in self.rng.integers(node.size, size=2))
            first, second = find(node, early), find(node, late)
            if early + first.size > late:
                return None
            changed = self.pool.replace(node, late, first)  # the later one first, so that the earlier index stays valid
            changed = self.pool.replace(changed, early, second)
        return changed if changed is not node and changed.depth == node.depth else None

    def rewriting(self, node: Node) -> Node | None:
        """Rewrite an expression by the axioms to a different one of the same depth, or return None."""
        current = node
        for step in range(60):
            index = int(self.rng.integers(current.size))
            part = find(current, index)
            if self.rng.random() < _EXPANSION_SHARE:
                matches = [(rule, {rule.source.label: part}) for rule in rule_index().expansions]
            else:
                matches = rule_index().matches(part)
            if matches:
                # fills new variables in the cached bindings: the next use of the rule at this node gives the same result
                rule, bindings = pick(matches, self.rng)
                new = instantiate(self.pool, rule.target, bindings, lambda: self.drawn(0))
                changed = self.pool.replace(current, index, new)
                if changed.depth <= node.depth and changed.size < node.size + 10:
                    current = changed
            if step > 2 and current.depth == node.depth and current is not node:
                return current
        return None


@dataclass(eq=False)
class CandidateSet:
    """Candidates over one pool. Add all of them before reading `ordered`. members: candidate -> number of its class."""

    members: dict[Node, int] = field(default_factory=dict)
    _refused: set[Node] = field(default_factory=set)
    _representatives: list[Node] = field(default_factory=list)  # the first member of each class
    _numbers: np.ndarray = field(default_factory=lambda: np.empty((64, POINTS), complex))  # the values of the representatives

    def add(self, node: Node) -> int | None:
        """Add a candidate; return the number of its class, or None if it has no certified class and is refused."""
        if node in self.members or node in self._refused:
            return self.members.get(node)
        self._refused.add(node)  # removed when it has a class
        if verdict_on(node, node).points < POINTS:
            return None
        value, numbers = node.value, node.value.number.copy()
        for point in np.flatnonzero(value.doubt).tolist():  # these were evaluated in 80 digits by `verdict_on`
            numbers[point] = complex(value.exact[0 if value.constant else point])
        count = len(self._representatives)
        gap = relative_gap(self._numbers[:count], numbers)
        for number in np.flatnonzero((gap > CLEARLY).sum(axis=1) < REFUTED_SHARE * POINTS).tolist():
            verdict = verdict_on(self._representatives[number], node).verdict
            if verdict == "holds":
                break
            if verdict != "refuted":
                return None
        else:  # it differs from all classes
            number = count
            if count == len(self._numbers):
                self._numbers = np.concatenate([self._numbers, np.empty_like(self._numbers)])
            self._numbers[count] = numbers
            self._representatives.append(node)
        self._refused.remove(node)
        self.members[node] = number
        return number

    @cached_property
    def ordered(self) -> dict[Node, str]:
        """The candidates in file order (depth, size, text) -> the names of their classes.

        Classes are numbered in that order, so that neither distinguishes the truths from the other candidates.
        """
        texts = {node: str(to_expression(node)) for node in self.members}
        nodes = sorted(texts, key=lambda node: (node.depth, node.size, texts[node]))
        names: dict[int, str] = {}
        return {node: names.setdefault(self.members[node], f"c{len(names)}") for node in nodes}

    def rows(self, prefix: str) -> Iterator[Row]:
        """Yield the lines of a file: expressions without a label, with an id that begins with `prefix` and their class."""
        for number, (node, name) in enumerate(self.ordered.items()):
            yield to_dict(Example(to_expression(node), None, f"{prefix}{number}", "test", value_class=name))


class Fillings:
    """Fillers to try in blanks, evaluated once. classes: filler -> name of its class; only the first of each class is tried."""

    def __init__(self, pool: Pool, classes: dict[Node, str]):
        fillers = {name: node for node, name in reversed(classes.items())}
        self.pool, self.names, self.fillers = pool, list(fillers), list(fillers.values())
        self._numbers = np.array([filler.value.number for filler in self.fillers]).reshape(-1, POINTS)

    def fit(self, equation: Equation, blank: int) -> dict[str, list[str]]:
        """Return names of classes for node `blank` of an equation, in a certificate's order.

        right: the equation holds. doubtful: it holds at some points only, or is undefined.
        """
        root, numbers = self.pool.tree(equation), self._numbers
        (_, side), *above = path_to(root, blank)[:-1]
        with np.errstate(all="ignore"):  # overflow and poles give NaN or infinity, which do not count as different
            for node, slot in reversed(above):
                operator = MATH[node.name].value
                assert operator is not None  # every operator below the root has a value
                numbers = operator(*(numbers if i == slot else child.value.number for i, child in enumerate(node.children)))
            opposite = root.children[1 - side].value.number
            differ = (relative_gap(numbers, opposite) > CLEARLY) & (np.maximum(np.abs(numbers), np.abs(opposite)) > _NOISE)
        fit: dict[str, list[str]] = {"right": [], "doubtful": []}
        for number in np.flatnonzero(differ.sum(axis=1) < REFUTED_SHARE * POINTS).tolist():
            verdict = verdict_on(*self.pool.replace(root, blank, self.fillers[number]).children).verdict
            if verdict == "holds":
                fit["right"].append(self.names[number])
            elif verdict != "refuted":
                fit["doubtful"].append(self.names[number])
        return fit
