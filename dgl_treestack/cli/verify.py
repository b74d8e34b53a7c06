"""`treestack verify`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from dgl_treestack.cli import Json, OptionalRun, print_json
from dgl_treestack.errors import DataError, ExpressionError, TreestackError
from dgl_treestack.plain_data import text_of

if TYPE_CHECKING:
    from dgl_treestack.expression import Equation
    from dgl_treestack.truth import Verdict

DIGITS = range(4, 18)  # of a number; a float has no more


def verify(
    equations: Annotated[
        Positional[tuple[str, ...]],
        arg(help='Such as "sin(x)**2 + cos(x)**2 = 1"; - reads standard input, an equation in every line.'),
    ] = (),
    *,
    file: Annotated[Path | None, arg(help="A text file with an equation in every line.")] = None,
    run: OptionalRun = None,
    no_model: Annotated[bool, arg(help="Check numerically only.")] = False,
    json: Json = False,
) -> None:
    """Check numerically whether equations hold, and ask a model."""
    from dgl_treestack.expression import Equation

    asked = [("", text) for text in equations if text != "-"]  # texts, each after the file and line that it is from
    for source in (*(["-"] if "-" in equations else []), *([str(file)] if file else [])):
        try:
            content = sys.stdin.read() if source == "-" else text_of(Path(source).read_bytes(), source)
        except OSError as error:
            raise DataError(f"Cannot be read: {error.strerror}.", source) from None
        asked += [(f"{source}:{number}: ", line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not asked:
        raise DataError('There is no equation. Write one, such as treestack verify "x + y = y + x", or name a --file of them.')
    answers: list[dict[str, Any]] = []
    show: Callable[..., None] = (lambda *lines, **options: None) if json else print
    opened = model = None
    for place, text in asked:
        if answers:
            show()
        try:
            tree = Equation.parse(text)
            from dgl_treestack.truth import judge  # a syntax error need not wait for it

            verdict = judge(tree)
        except ExpressionError as error:
            answers.append({"equation": text, "error": f"{place}{error}"})
            show(f"error: {place}{error}", file=sys.stderr)
            continue
        answer = _numeric(tree, verdict)
        answers.append(answer)
        remark = [answer["remark"]] if "remark" in answer else []
        # Flushed, as loading the model takes longer than the check.
        show(f"{tree}   (depth {tree.depth})", *remark, f"numeric  {answer['numeric']}", sep="\n", flush=True)
        if no_model:
            continue
        from dgl_treestack.runs.pretrained import open_run, trust  # which loads torch

        opened = opened or open_run(run)
        model = model or opened.load_model()
        try:
            score = model.score(tree, task="verification")[0]
        except TreestackError as error:
            answer |= {"score": None, "probability": None, "agree": None, "refused": str(error)}
            show(f"model    no answer: {error}")
        else:
            probability = float(score.sigmoid())
            holds = {"holds": True, "refuted": False}.get(verdict.verdict)
            agree = None if holds is None else holds == (probability > 0.5)
            answer |= {"score": score.item(), "probability": probability, "agree": agree}
            show(f"model    P(correct) = {probability:.3f}")
            if agree is False:
                show("The model and the numeric check disagree; believe the check.")
        if len(asked) == 1:
            show(trust(opened, tree))
    if json:
        print_json(answers[0] if len(asked) == 1 else answers)
    if any("error" in answer for answer in answers):
        sys.exit(2)


def _numeric(tree: "Equation", verdict: "Verdict") -> dict[str, Any]:
    """Return the numeric verdict on an equation, also in words."""
    from dgl_treestack.expression.infix import remark_on_names
    from dgl_treestack.truth import why_undefined

    numeric = f"{verdict.verdict}: {verdict.agreeing} of {verdict.points} defined points agree ({verdict.precision})"
    if verdict.verdict == "undefined":
        numeric = f"undefined: {why_undefined(tree)}"
    elif witness := verdict.witness:  # a point at which the sides differ, in as many digits as tell them apart
        variables = {name: value if value.imag else value.real for name, value in witness.variables.items()}
        place = ", ".join(f"{name} = {value:.{DIGITS[0]}g}" for name, value in variables.items())
        for digits in DIGITS:
            left, right = (f"{side if side.imag else side.real:.{digits}g}" for side in (witness.left, witness.right))
            if left != right:
                break
        else:
            right += f", and differ by {verdict.gap * abs(witness.left):.2g}"
        numeric += f"; {f'at {place} ' if place else ''}the sides are {left} and {right}"
    remark = remark_on_names(text for _, kind, text in tree.leaves() if kind == "Symbol")
    return {"equation": str(tree), "verdict": verdict.verdict, "numeric": numeric, **({"remark": remark} if remark else {})}
