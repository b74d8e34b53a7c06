"""Records: one row per evaluated tree, or per node with a label of its own. Every table and curve is a group-by over them.

A row is plain data: `schema`, `id`, `split`, `depth`, `label`, `score`, `correct` (None without a label), the measure by which
the run groups trees if that is not the depth, and the columns that the task adds. `atomic.write_json_lines` writes them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.data.formats import Example, read_lines
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression import Expression
from dgl_treestack.plain_data import read_json

SCHEMA = 1
REQUIRED = ("schema", "id", "split", "depth", "label", "score", "correct")

Record = dict[str, Any]


# Rules for the columns that tables read: a predicate for the value, and the rule in words.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("id", "split", "pair", "family", "predicted"), (lambda value: isinstance(value, str), "a text")),
    "depth": (lambda value: type(value) is int and value >= 0, "a whole number from 0"),
    "label": (lambda value: value is None or type(value) in (int, float, str), "a number, a class or null"),
    "score": (lambda value: value is None or type(value) in (int, float), "a number or null"),
    "correct": (lambda value: isinstance(value, bool | None), "true, false or null"),
}


def of_example(example: Example, **more: Any) -> Record:
    """The record of an example with additional columns. `score` and `correct` are None unless given in `more`."""
    columns = {"schema": SCHEMA, "id": example.id, "split": example.fold, "depth": example.equation.depth}
    return {**columns, "label": example.label, "score": None, "correct": None, **more}


def measure(name: str, tree: Expression, node: int = 0) -> int:
    """The depth of a node's subtree, its size in nodes, or its number of operators; for a pair, size and number are those of
    the larger tree."""
    if name == "depth":
        return tree.heights[node]
    is_pair = tree.names[node] == tree.signature.root
    spans = [(top, tree.ends[top]) for top in (tree.children(node) if is_pair else (node,))]
    if name == "size":
        return max(end - start for start, end in spans)
    return max(tree.operators_before[end] - tree.operators_before[start] for start, end in spans)


def read(path: Path | str) -> list[Record]:
    """All records of a file. Raises DataError with file and line."""
    records: list[Record] = []
    has_classes: bool | None = None
    for number, line in enumerate(read_lines(Path(path)), 1):
        try:
            record, _ = read_json(line, "Evaluate the run again.")
        except DataError as error:
            raise DataError(str(error), path, number) from None
        if not isinstance(record, dict) or not set(REQUIRED) <= record.keys() or record["schema"] != SCHEMA:
            raise DataError(f"Not a record of schema {SCHEMA}. Evaluate the run again.", path, number)
        for column, (is_valid, rule) in _RULES.items():
            if column in record and not is_valid(record[column]):
                raise DataError(f"{column!r} is {record[column]!r}, not {rule}. Evaluate the run again.", path, number)
        is_class = isinstance(record["label"], str)
        if is_class and "predicted" not in record:
            raise DataError("The label is a class, and 'predicted' is missing. Evaluate the run again.", path, number)
        if record["label"] is not None and is_class is not has_classes:
            if has_classes is not None:
                raise DataError("Labels are classes in some rows and numbers in others. Evaluate the run again.", path, number)
            has_classes = is_class
        records.append(record)
    return records


def without_cuts(rows: Iterable[Record]) -> list[Record]:
    """The records of trees without a value on a branch cut. Raises ConfigurationError if no record says that there is one."""
    all_rows = list(rows)
    if not any(row.get("cut") for row in all_rows):
        raise ConfigurationError(
            "No record is of an equation on a branch cut: the certificates of this data do not say it, or the records are of "
            "an earlier version. Generate the data again and evaluate once more."
        )
    return [row for row in all_rows if not row.get("cut")]


def accuracy(records: Iterable[Record]) -> float:
    """Share of correct records among the labelled ones, in percent; NaN when there are none."""
    correct = [record["correct"] for record in records if record["correct"] is not None]
    return 100 * sum(correct) / len(correct) if correct else math.nan


def grouped(records: Iterable[Record], column: str = "depth") -> dict[int, list[Record]]:
    """Records grouped by a column of whole numbers, such as the depth, in rising order."""
    groups: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        groups[record[column]].append(record)
    return dict(sorted(groups.items()))


def majority(records: Sequence[Record]) -> float:
    """Accuracy of always predicting the most frequent label, in percent; NaN without labels, or for numbers."""
    labels = [record["label"] for record in records if isinstance(record["label"], int | str)]
    return 100 * max(Counter(labels).values()) / len(labels) if labels else math.nan
