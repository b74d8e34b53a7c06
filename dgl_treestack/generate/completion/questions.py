"""Blanks as lines of a file, and which of those that were made are kept.

A part of a preset holds them as `question` makes them: the line, the canonical key of the equation, and the cell of the plan
that it counts for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.lines import to_dict
from dgl_treestack.expression import Equation
from dgl_treestack.generate.completion.fitting import Fit

MOST_RIGHT = 20  # classes; a blank that more fit into asks too little
BLANKS_FILE = "blanks.jsonl.gz"

Row = dict[str, Any]


def question(made: Row, value_class: str, fit: Fit, candidates: str) -> Row:
    """A blank that has been answered.

    made: `equation` in prefix form, `blank`, `certificate`, `key` and `cell`. value_class: of the truth, empty when it has no
    certified one. candidates: the file of its candidates.
    """
    certificate = {**made["certificate"], "candidates": candidates, "right": fit.right, "doubtful": fit.doubtful}
    equation = Equation.from_prefix(made["equation"])
    example = Example(equation, 1, "", "test", certificate=certificate, blank=made["blank"], value_class=value_class)
    return {"key": made["key"], "cell": made["cell"], "line": to_dict(example)}


def chosen(rows: Iterable[Row], wanted: Mapping[str, int]) -> tuple[list[Row], dict[str, Any]]:
    """The lines of the blanks to keep, with ids, no more than wanted in any cell, and notes on the choice."""
    seen, counts, dropped = set[str](), Counter[str](), Counter[str]()
    kept: list[Row] = []
    for row in rows:
        key, cell = row["key"], row["cell"]
        reason = _fault(row["line"]) or ("duplicate" if key in seen else "surplus" if counts[cell] == wanted[cell] else "")
        if reason:
            dropped[reason] += 1
            continue
        seen.add(key)
        counts[cell] += 1
        kept.append({"id": f"b{len(kept)}", **row["line"]})
    short = {cell: count - counts[cell] for cell, count in wanted.items() if counts[cell] < count}
    right = counted(len(line["certificate"]["right"]) for line in kept)
    notes = {
        "kept": {cell: counts[cell] for cell in wanted},
        "dropped": counted(dropped.elements()),
        "blanks by number of right classes": right,
    }
    return kept, {**notes, "short of the plan": short} if short else notes


def _fault(line: Row) -> str:
    """Why a blank is not used, or nothing."""
    right = line["certificate"]["right"]
    if line.get("class") not in right:
        return "truth not confirmed among the candidates" if "class" in line else "truth without a certified class"
    return "fits too much" if len(right) > MOST_RIGHT else ""


def counted(things: Iterable[Any]) -> dict[str, int]:
    """How often each thing occurs, in order."""
    counts = Counter(things)
    return {str(thing): counts[thing] for thing in sorted(counts)}
