"""`treestack verify`."""

from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Json, OptionalRun, print_json


def verify(
    equation: Annotated[Positional[str], arg(help='Such as "sin(x)**2 + cos(x)**2 = 1"; after -- if it begins with a minus.')],
    *,
    run: OptionalRun = None,
    json: Json = False,
) -> None:
    """Ask a model whether an equation holds, and check it numerically."""
    from dgl_treestack.expression import Equation
    from dgl_treestack.runs.pretrained import known_names, open_run, trust
    from dgl_treestack.truth import judge

    tree, opened = Equation.parse(equation), open_run(run)
    verdict = judge(tree)
    score = opened.load_model().score(tree.with_variables(known_names(tree, opened)), task="verification")[0]
    probability = float(score.sigmoid())
    holds = {"holds": True, "refuted": False}.get(verdict.verdict)
    agree = None if holds is None else holds == (probability > 0.5)
    if json:
        answer = {"equation": str(tree), "score": score.item(), "probability": probability}
        print_json({**answer, "verdict": verdict.verdict, "agree": agree})
        return
    numeric = f"{verdict.verdict}: {verdict.agreeing} of {verdict.points} defined points agree ({verdict.precision})"
    if witness := verdict.witness:
        values = [*witness.variables.values(), witness.left, witness.right]
        *point, left, right = [f"{value.real:.4g}" if value.imag == 0 else f"{value:.4g}" for value in values]
        assignments = [f"{name} = {value}" for name, value in zip(witness.variables, point, strict=True)]
        at_point = f"at {', '.join(assignments)} " if assignments else ""
        numeric += f"; {at_point}the sides are {left} and {right}"
    print(f"{tree}   (depth {tree.depth})")
    print(f"model    P(correct) = {probability:.3f}")
    print(f"numeric  {numeric}")
    if agree is False:
        print("The model and the numeric check disagree; believe the check.")
    print(trust(opened, tree.depth))
