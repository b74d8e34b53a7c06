"""The verdict on an equation."""

from collections.abc import Sequence

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.truth.comparison import Comparison, Verdict
from dgl_treestack.truth.value import BUDGET, Value


def judge(equation: Expression, budget: int = BUDGET) -> Verdict:
    """Judge an equation over `MATH`.

    budget: operations allowed in 80 digits.

    Raises ExpressionError when the expression is not an equation, nests equations, or has a blank.

    >>> judge(Expression.parse("sin(x)**2 + cos(x)**2 = 1")).verdict
    'holds'
    >>> judge(Expression.parse("sqrt(x**2) = x")).verdict
    'conditional'
    """
    _check(equation)
    left, right = _evaluate(equation)
    variables = {text for _, kind, text in equation.leaves() if kind == "Symbol"}
    return compare(left, right, sorted(variables), budget)


def judge_rounded(equation: Expression, decimals: int) -> Verdict:
    """Judge an equation between numbers of which one is rounded: it holds when the sides are at most half a unit of the
    last decimal apart. An equation with variables is judged as ever.

    >>> judge_rounded(Expression.parse("sin(0.5) = 0.48"), 2).verdict
    'holds'
    """
    _check(equation)
    left, right = _evaluate(equation)
    if not (left.constant and right.constant):
        return judge(equation)
    comparison = Comparison(left, right, (), BUDGET)
    comparison.tolerate_rounding(0.5 * 10.0**-decimals)
    return comparison.verdict()


def compare(left: Value, right: Value, variables: Sequence[str], budget: int = BUDGET) -> Verdict:
    """The verdict on two sides that are already evaluated; `variables` are the names that occur in them."""
    comparison = Comparison(left, right, variables, budget)
    comparison.recheck()
    return comparison.verdict()


def certify(left: Value, right: Value, variables: Sequence[str], wanted: str) -> Verdict | None:
    """The verdict if it is the one wanted, "holds" or "refuted"; None, as soon as that is clear, if it is another one."""
    comparison = Comparison(left, right, variables, BUDGET, wanted)
    comparison.recheck()
    verdict = comparison.verdict()
    return verdict if verdict.verdict == wanted else None


def _check(equation: Expression) -> None:
    if equation.names[0] != "Equality":
        raise ExpressionError(f"Only an equation holds or does not; {equation.names[0]!r} is its root. Add '='.")
    if "Equality" in equation.names[1:]:
        raise ExpressionError("An equation inside an equation has no value. Judge them one by one.")
    if equation.blanks:
        raise ExpressionError(f"Node {equation.blanks[0]} is a blank `_`, which has no value. Fill it in first.")


def _evaluate(equation: Expression) -> list[Value]:
    """The values of the two sides, equal subtrees evaluated once."""
    known: dict[tuple, Value] = {}
    done: list[Value] = []
    for i in range(equation.size - 1, 0, -1):
        arity = equation.arities[i]
        children = tuple(reversed(done[len(done) - arity :])) if arity else ()
        del done[len(done) - arity :]
        key = (equation.names[i], equation.texts[i], *map(id, children))
        if key not in known:
            known[key] = Value(equation.names[i], equation.texts[i], children)
        done.append(known[key])
    return done[::-1]
