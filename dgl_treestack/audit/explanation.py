"""Why one equation has its label: the verdict, the point that refutes it, the steps that derive it."""

from collections.abc import Sequence
from typing import Any

from dgl_treestack.audit.examination import decimals_of, judged
from dgl_treestack.audit.verdicts import LABELS, contradicts
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError
from dgl_treestack.generate.derivation import replay
from dgl_treestack.resources import find_data
from dgl_treestack.truth import POINTS, Verdict


def find(names: Sequence[str], wanted_id: str) -> list[Example]:
    """The examples of some files that have an id, or stand in a line `file:line`. Raises ConfigurationError, DataError."""
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    examples, first_ids = list[Example](), list[str]()
    for name in names:
        for example in formats.read(find_data(name)):
            if wanted_id in (example.id, example.source):
                examples.append(example)
            elif len(first_ids) < 3:
                first_ids.append(example.id or example.source)
    if not examples:
        hint = f"The first ids are {', '.join(map(repr, first_ids))}." if first_ids else "The file is empty."
        raise DataError(f"No equation has the id {wanted_id!r}. {hint}", names[0])
    return examples


def explain(example: Example) -> dict[str, Any]:
    """What is known of an example, judged anew: `verdict`, `contradicted`, `witness` when a point disagrees, `style` and
    `derivation` when the certificate has them. Raises DataError when it cannot be judged, or its derivation not replayed."""
    try:
        found = judged(example.equation, decimals_of(example))
        steps = _steps(example)
    except (ExpressionError, DataError) as error:
        raise DataError(str(error), example.source or None) from None
    certificate = example.certificate or {}
    return {
        "id": example.id,
        "source": example.source,
        "equation": str(example.equation),
        "depth": example.equation.depth,
        "label": example.label,
        "verdict": found.verdict,
        "points": found.points,
        "agreeing": found.agreeing,
        "gap": found.gap,
        "precision": found.precision,
        "contradicted": contradicts(example.label, found.verdict),
        "witness": _witness(found),
        "style": certificate.get("style"),
        "derivation": steps,
    }


def _steps(example: Example) -> list[dict[str, str]]:
    derivation = (example.certificate or {}).get("derivation")
    if not derivation:
        return []
    steps = list(replay(derivation))
    if steps[-1][1] != example.equation:
        raise DataError(
            f"The derivation of {example.id!r} leads to {steps[-1][1]}, not to the equation. One of them was changed."
        )
    return [{"step": step, "equation": str(equation)} for step, equation in steps]


def _witness(found: Verdict) -> dict[str, Any] | None:
    if found.witness is None:
        return None
    variables = {name: number(value) for name, value in found.witness.variables.items()}
    return {
        "point": found.witness.point,
        "variables": variables,
        "left": number(found.witness.left),
        "right": number(found.witness.right),
    }


def number(value: complex) -> str:
    """A complex number as a person writes it.

    >>> number(0.25 - 2j), number(3 + 0j), number(1j)
    ('0.25 - 2 i', '3', '1 i')
    """
    if value.imag == 0:
        return f"{value.real:.12g}"
    imaginary = f"{abs(value.imag):.12g} i"
    if value.real == 0:
        return imaginary if value.imag > 0 else f"-{imaginary}"
    return f"{value.real:.12g} {'+' if value.imag > 0 else '-'} {imaginary}"


def describe(found: dict[str, Any]) -> str:
    """An explanation as text."""
    lines = [
        f"{found['source']}: {found['id']}".removesuffix(": "),
        f"  {found['equation']}",
        "",
        f"label       {LABELS[found['label']]}, depth {found['depth']}",
        f"verdict     {found['verdict']}: {found['agreeing']} of {found['points']} defined points agree ({POINTS} tried), "
        f"largest relative gap {found['gap']:.3g}, {found['precision']}",
        f"together    {_agreement(found)}",
    ]
    if found["witness"]:
        lines += _describe_witness(found["witness"])
    if found["style"]:
        lines.append(f"made by     {found['style']}")
    if found["derivation"]:
        lines.append("derivation")
        for i, step in enumerate(found["derivation"]):
            lines += [f"  {i:>3}  {step['step']}", f"       {step['equation']}"]
    return "\n".join(lines)


def _agreement(found: dict[str, Any]) -> str:
    if found["contradicted"]:
        return "the verdict CONTRADICTS the label"
    if found["label"] is None:
        return "there is no label to compare with"
    decides = found["verdict"] in ("holds", "refuted")
    return "the verdict agrees with the label" if decides else "the verdict decides nothing about the label"


def _describe_witness(witness: dict[str, Any]) -> list[str]:
    names = [*witness["variables"], "left side", "right side"]
    values = [*witness["variables"].values(), witness["left"], witness["right"]]
    width = max(map(len, names))
    lines = [f"  {name:<{width}} = {value}" for name, value in zip(names, values, strict=True)]
    return [f"witness     point {witness['point']}, where the sides differ most", *lines]
