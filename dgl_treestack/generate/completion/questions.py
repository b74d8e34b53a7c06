"""Blanks as lines of a file, and the selection of those to keep.

A part of a preset holds rows of `question`: the line, the canonical key of the equation, and its cell of the plan.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.expression import Equation
from dgl_treestack.generate.completion.fitting import Fit

MOST_RIGHT = 20  # maximum right classes of a blank; with more it is too easy
BLANKS_FILE = "blanks.jsonl.gz"

Row = dict[str, Any]


def question(blank: Row, value_class: str, fit: Fit, candidates: str) -> Row:
    """Return the row of a blank whose right classes are known.

    blank: `equation` in prefix form, `blank`, `certificate`, `key` and `cell`. value_class: that of the truth, empty if it has
    no certified one. candidates: the file of its candidates.
    """
    certificate = {**blank["certificate"], "candidates": candidates, "right": fit.right, "doubtful": fit.doubtful}
    equation = Equation.from_prefix(blank["equation"])
    example = Example(equation, 1, "", "test", certificate=certificate, blank=blank["blank"], value_class=value_class)
    return {"key": blank["key"], "cell": blank["cell"], "line": to_dict(example)}


def chosen(rows: Iterable[Row], plan: Mapping[str, int]) -> tuple[list[Row], dict[str, Any]]:
    """Return the lines of the blanks to keep, with ids, no more than planned in any cell, and notes on the choice."""
    seen, counts, dropped = set[str](), Counter[str](), Counter[str]()
    lines: list[Row] = []
    for row in rows:
        key, cell, line = row["key"], row["cell"], row["line"]
        right = line["certificate"]["right"]
        if "class" not in line:
            dropped["truth without a certified class"] += 1
        elif line["class"] not in right:
            dropped["truth not confirmed among the candidates"] += 1
        elif len(right) > MOST_RIGHT:
            dropped["fits too much"] += 1
        elif key in seen:
            dropped["duplicate"] += 1
        elif counts[cell] == plan[cell]:
            dropped["surplus"] += 1
        else:
            seen.add(key)
            counts[cell] += 1
            lines.append({"id": f"b{len(lines)}", **line})
    short = {cell: count - counts[cell] for cell, count in plan.items() if counts[cell] < count}
    notes = {
        "kept": {cell: counts[cell] for cell in plan},
        "dropped": counted(dropped.elements()),
        "blanks by number of right classes": counted(len(line["certificate"]["right"]) for line in lines),
    }
    return lines, {**notes, "short of the plan": short} if short else notes


def counted(items: Iterable[Any]) -> dict[str, int]:
    """Return how often each item occurs, in the order of the items."""
    counts = Counter(items)
    return {str(item): counts[item] for item in sorted(counts)}
