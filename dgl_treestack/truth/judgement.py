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
    left, right = _evaluate_sides(equation)
    variables = {text for _, kind, text in equation.leaves() if kind == "Symbol"}
    return compare(left, right, sorted(variables), budget)


def judge_rounded(equation: Expression, decimals: int) -> Verdict:
    """Judge an equation between numbers of which one is rounded to `decimals`.

    It holds when the sides are at most half a unit of the last decimal apart. An equation with variables is judged by `judge`.

    Raises ExpressionError as `judge` does.

    >>> judge_rounded(Expression.parse("sin(0.5) = 0.48"), 2).verdict
    'holds'
    """
    left, right = _evaluate_sides(equation)
    if not (left.constant and right.constant):
        return judge(equation)
    comparison = Comparison(left, right, (), BUDGET)
    comparison.tolerate_rounding(0.5 * 10.0**-decimals)
    return comparison.verdict()


def compare(left: Value, right: Value, variables: Sequence[str], budget: int = BUDGET) -> Verdict:
    """Return the verdict on two sides that are already evaluated.

    variables: the names that occur in them. budget: operations allowed in 80 digits.
    """
    comparison = Comparison(left, right, variables, budget)
    comparison.recheck()
    return comparison.verdict()


def certify(left: Value, right: Value, variables: Sequence[str], expected: str) -> Verdict | None:
    """Return the verdict on two evaluated sides if it is the expected one, otherwise None, as soon as that is clear.

    variables: the names that occur in the sides. expected: "holds" or "refuted".
    """
    comparison = Comparison(left, right, variables, BUDGET, expected)
    comparison.recheck()
    verdict = comparison.verdict()
    return verdict if verdict.verdict == expected else None


def _evaluate_sides(equation: Expression) -> list[Value]:
    """Return the values of the two sides of an equation, equal subtrees evaluated once. Raises ExpressionError."""
    if equation.names[0] != "Equality":
        raise ExpressionError(f"Only an equation holds or does not; {equation.names[0]!r} is its root. Add '='.")
    if "Equality" in equation.names[1:]:
        raise ExpressionError("An equation inside an equation has no value. Judge them one by one.")
    if equation.blanks:
        raise ExpressionError(f"Node {equation.blanks[0]} is a blank `_`, which has no value. Fill it in first.")
    values: dict[tuple, Value] = {}
    stack: list[Value] = []
    for i in range(equation.size - 1, 0, -1):
        arity = equation.arities[i]
        children = tuple(reversed(stack[len(stack) - arity :])) if arity else ()
        del stack[len(stack) - arity :]
        key = (equation.names[i], equation.texts[i], *map(id, children))
        if key not in values:
            values[key] = Value(equation.names[i], equation.texts[i], children)
        stack.append(values[key])
    return stack[::-1]
