"""The evidence for one equation's label: the verdict, the point that refutes it, the steps that derive it."""

from collections.abc import Sequence
from typing import Any

from dgl_treestack.audit.corpus import EXPECTED, LABELS, ROUNDED, judge_equation
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError
from dgl_treestack.generate.rewrite import replay
from dgl_treestack.resources import find_data


def find(names: Sequence[str], example_id: str) -> list[Example]:
    """Return the examples with an id, or from a line `file:line`.

    names: files, as paths or `bundled:` names. Raises ConfigurationError without files, DataError if no example has the id.
    """
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    examples, first_ids = list[Example](), list[str]()
    for name in names:
        for example in formats.read(find_data(name)):
            if example_id in (example.id, example.source):
                examples.append(example)
            elif len(first_ids) < 3:
                first_ids.append(example.id or example.source)
    if not examples:
        hint = f"The first ids are {', '.join(map(repr, first_ids))}." if first_ids else "The file is empty."
        raise DataError(f"No equation has the id {example_id!r}. {hint}", names[0])
    return examples


def explain(example: Example) -> dict[str, Any]:
    """Judge an example again and return the evidence for its label.

    Returns among others `verdict`, `contradicted` (whether the verdict contradicts the label), `witness` if the sides disagree
    at a point, `style` and `derivation` if the certificate has them. Raises DataError if the example cannot be judged, or if
    its derivation is that of another equation.
    """
    certificate = example.certificate or {}
    derivation = certificate.get("derivation")
    try:
        verdict = judge_equation(example.equation, certificate.get("rounded"))
        steps = list(replay(derivation)) if derivation else []
        if steps and steps[-1][1] != example.equation:
            raise DataError(
                f"The derivation of {example.id!r} leads to {steps[-1][1]}, not to the equation. One of them was changed."
            )
    except (ExpressionError, DataError) as error:
        raise DataError(str(error), example.source or None) from None
    witness = verdict.witness and {
        "point": verdict.witness.point,
        "variables": {name: number(value) for name, value in verdict.witness.variables.items()},
        "left": number(verdict.witness.left),
        "right": number(verdict.witness.right),
    }
    return {
        "id": example.id,
        "source": example.source,
        "equation": str(example.equation),
        "depth": example.equation.depth,
        "label": example.label,
        **{name: getattr(verdict, name) for name in ("verdict", "points", "agreeing", "gap", "precision")},
        "contradicted": isinstance(example.label, int) and verdict.verdict == EXPECTED[1 - example.label],
        "witness": witness,
        "style": certificate.get("style"),
        "derivation": [{"step": step, "equation": str(equation)} for step, equation in steps],
    }


def number(value: complex) -> str:
    """Return a complex number as text.

    >>> number(0.25 - 2j), number(3 + 0j), number(1j)
    ('0.25 - 2 i', '3', '1 i')
    """
    if value.imag == 0:
        return f"{value.real:.12g}"
    imaginary = f"{abs(value.imag):.12g} i"
    if value.real == 0:
        return imaginary if value.imag > 0 else f"-{imaginary}"
    return f"{value.real:.12g} {'+' if value.imag > 0 else '-'} {imaginary}"


def describe(explanation: dict[str, Any]) -> str:
    """Return the result of `explain` as text."""
    e = explanation
    if e["contradicted"]:
        agreement = "the verdict CONTRADICTS the label"
    elif e["label"] is None:
        agreement = "there is no label to compare with"
    elif e["verdict"] in EXPECTED.values():
        agreement = "the verdict agrees with the label"
    elif e["verdict"] == ROUNDED:
        agreement = "the sides differ, by half of the last decimal that is written at most"
    else:
        agreement = "the verdict decides nothing about the label"
    lines = [
        f"{e['source']}: {e['id']}".removesuffix(": "),
        f"  {e['equation']}",
        "",
        f"label       {LABELS[e['label']]}, depth {e['depth']}",
        f"verdict     {e['verdict']}: {e['agreeing']} of {e['points']} defined points agree, "
        f"largest relative gap {e['gap']:.3g}, {e['precision']}",
        f"together    {agreement}",
    ]
    if witness := e["witness"]:
        values = {**witness["variables"], "left side": witness["left"], "right side": witness["right"]}
        width = max(map(len, values))
        lines.append(f"witness     point {witness['point']}, where the sides differ most")
        lines += [f"  {name:<{width}} = {value}" for name, value in values.items()]
    if e["style"]:
        lines.append(f"made by     {e['style']}")
    if e["derivation"]:
        lines.append("derivation")
        for i, step in enumerate(e["derivation"]):
            lines += [f"  {i:>3}  {step['step']}", f"       {step['equation']}"]
    return "\n".join(lines)
