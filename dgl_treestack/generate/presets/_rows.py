"""A matched pair as plain data: what its shard saves."""

from typing import Any

from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.lines import to_dict
from dgl_treestack.expression import Equation
from dgl_treestack.generate.features import difference
from dgl_treestack.generate.pairs import Pair
from dgl_treestack.generate.presets._contract import Row
from dgl_treestack.truth import Verdict


def row_of(pair: Pair) -> Row:
    """A pair as plain data, with what `assembly` looks at."""
    true, false = pair.true.equation, pair.false.equation
    difference_of = difference(true, false)
    positive = {**_certificate(pair.true.verdict), "derivation": pair.derivation}
    negative = {**_certificate(pair.false.verdict), "style": pair.style}
    return {
        "members": [_line(pair, true, 1, positive), _line(pair, false, 0, negative)],
        "keys": [pair.true.key, pair.false.key],
        "sides": sorted(pair.sides),
        "difference": [[*difference_of], [*difference_of.values()]],
    }


def _line(pair: Pair, equation: Equation, label: int, certificate: dict) -> Row:
    return to_dict(Example(equation, label, family=pair.family[:12], certificate=certificate))


def _certificate(verdict: Verdict) -> dict[str, Any]:
    """What the verdict rests on; a witness is a point of `truth`, with the values of the sides there."""
    digits = 15 if verdict.precision == "float64" else int(verdict.precision.split()[0])
    certificate: dict[str, Any] = {"verdict": verdict.verdict, "points": verdict.points, "digits": digits}
    if verdict.witness is not None:
        sides = (verdict.witness.left, verdict.witness.right)
        left, right = ([float(f"{part:.6g}") for part in (side.real, side.imag)] for side in sides)
        certificate["witness"] = {"point": verdict.witness.point, "left": left, "right": right}
    return certificate
