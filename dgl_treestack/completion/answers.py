"""The best fillers for the blank of one equation, from a file of candidates or from small expressions."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import truth
from dgl_treestack.completion import questions
from dgl_treestack.completion.scoring import scores
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH
from dgl_treestack.model.model import Model

NO_VALUES = ("Symbol", "NaN", "Infinity")
COMMUTATIVE = ("Add", "Mul")


def fill(model: Model, equation: Equation, candidates: Path | None = None, top: int = 10) -> list[dict[str, Any]]:
    """Return the best `top` candidates for the blank `_` of an equation, best first.

    Each is a dictionary of `filler`, `score`, `probability`, and `verdict`: the numeric verdict on the filled equation.

    candidates: a file of them; without it, `small_expressions`. Raises ExpressionError unless there is exactly one blank.
    """
    if len(equation.blanks) != 1:
        raise ExpressionError(f"{equation} has {len(equation.blanks)} blanks `_`; one is asked for, as in 'sin(x)**2 + _ = 1'.")
    (blank,) = equation.blanks
    if candidates:
        fillers: Sequence[Expression] = questions.read_candidates(candidates).expressions
    else:
        variables = sorted({text for _, kind, text in equation.leaves() if kind == "Symbol"})
        fillers = small_expressions(variables, model.vocabulary)
    (score,) = scores(model, [(equation.replace(blank, fillers[0]), blank)], fillers)
    answers = []
    for i in sorted(range(len(fillers)), key=lambda i: -score[i])[:top]:
        probability = float(torch.sigmoid(torch.tensor(float(score[i]))))
        verdict = truth.judge(equation.replace(blank, fillers[i])).verdict
        answers.append({"filler": str(fillers[i]), "score": float(score[i]), "probability": probability, "verdict": verdict})
    return answers


def small_expressions(variables: Sequence[str], vocabulary: Vocabulary) -> list[Expression]:
    """Return candidates for equations with some variables.

    They are the variables, the constants of the vocabulary, every operator applied to these (arguments of sums and products in
    one order only), and the square, reciprocal and negative of every function of a variable.
    """
    symbols = [Expression.leaf("Symbol", name) for name in variables]
    leaves = [*symbols, *(Expression.leaf(*leaf) for leaf in vocabulary.leaves if leaf[0] not in NO_VALUES)]
    candidates = [*leaves]
    for operator in MATH.inner:
        arguments: Iterable[tuple[Expression, ...]] = itertools.product(leaves, repeat=operator.arity or 1)
        if operator.name in COMMUTATIVE:
            arguments = itertools.combinations_with_replacement(leaves, 2)
        candidates += [Expression.node(operator.name, *children) for children in arguments]
    minus, two = Expression.leaf("NegativeOne"), Expression.leaf("Integer", "2")
    for operator, symbol in itertools.product(MATH.inner, symbols):
        if operator.arity == 1:
            value = Expression.node(operator.name, symbol)
            for name, *children in (("Pow", value, two), ("Pow", value, minus), ("Mul", minus, value)):
                candidates.append(Expression.node(name, *children))
    return candidates
