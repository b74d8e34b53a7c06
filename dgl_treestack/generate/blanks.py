"""True equations to blank, the nodes that may be blanked, the verdict on a filled blank, and blanks as lines of a file.

A *blank* is a node of an equation that a model predicts. A filler is *right* if the equation holds with it, even if it differs
from the original subtree: both x and -x fill `_**2 = x**2`. `fills` implements this definition.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.derivation import depth_of
from dgl_treestack.generate.fillers import Fillings
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.grow import Grower, Habits
from dgl_treestack.generate.nodes import Node, Pool, to_equation
from dgl_treestack.generate.presets import Cell, Row, deal
from dgl_treestack.truth import Verdict, judge_at_fixed_points

VARIABLES = ("x", "y", "z")  # of every blanked equation, in order of occurrence
PARTITION = "deep"
MOST_RIGHT = 20  # maximum right classes of a blank; with more it is too easy
BLANKS_FILE = "blanks.jsonl.gz"
# A blank that one of these fills can be filled with anything, as in 0*_ = 0, and is not a question.
_PROBES = tuple(map(Expression.parse, ("Float(0.37)", "x*Float(1.9) - sin(Float(0.6)*x)")))


def true_equations(rng: np.random.Generator, depth: int, attempts: int, variables: int = 0) -> Iterator[tuple[Equation, Row]]:
    """Yield different equations in `VARIABLES` of exactly this depth, derived and certified, from at most `attempts`.

    With each, yield the start of the row of its blank: `equation`, `keys`, and the `certificate`, which has the axiom at the
    root of the derivation. variables: number of variables in an equation; 0 for any number from one on.
    """
    weights = tuple(float(count == variables) for count in (1, 2, 3)) if variables else Habits().variables
    grower, seen = Grower(rng, Habits(variables=weights)), set[str]()
    for _ in range(attempts):
        start = grower.start()
        grown = grower.grow(start, depth) if depth_of(start.sides) <= depth else None
        if grown is None:
            continue
        equation = to_equation(*grown.sides)
        names = dict.fromkeys(text for _, kind, text in equation.leaves() if kind == "Symbol")
        if not 1 <= len(names) <= len(VARIABLES):
            continue
        equation = equation.with_variables(dict(zip(names, VARIABLES, strict=False)))  # in order of occurrence
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
    """Yield the rows of blanks for `deal`, with all classes that are right for them.

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
    dealt = deal(rows, {cell: repeat("test", count) for cell, count in plan.items()}, "b")
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
