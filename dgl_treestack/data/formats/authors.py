"""The JSON of the authors' release: a list of groups, group i holding the equations of depth i.

A tree is written in pre-order with two children for every node, `#` standing for an absent one. Only names and the texts
of variables and numbers are used: node numbers and depths are recomputed, and `Pi`, `Half` and the like get their fixed text.
The blank of a completion file is found by its node number.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.data.formats.example import Example
from dgl_treestack.data.vocabulary import LETTERS
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import LEAF_CLASSES, MATH
from dgl_treestack.plain_data import read_json

ABSENT = "#"
_LABELS = {"1": 1, "0": 0, "-1": None}
# One character at a time, 40 MB of blanks took 3.4 s in place of less than one.
_SPACE = re.compile(r"[ \t\n\r]*")


def entries(path: Path, text: str) -> Iterator[tuple[int, str, Any]]:
    """Decode a list of lists one entry at a time: line in the file, `group-index`, value. Raises DataError.

    `json.loads` of the text would hold all entries in memory, without line numbers.
    """
    position, line = 0, 1
    group = index = open_lists = 0
    comma_needed, fault = False, ""
    while not fault:
        start = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # the pattern matches an empty text, too
        line += text.count("\n", position, start)
        position, character = start, text[start : start + 1]
        if open_lists < 0:
            if not character:
                return
            fault = "There is text after the end of the list. Put every list into a file of its own."
        elif not character:
            fault = "The file ends inside a list. It is cut short; copy it again."
        elif character == "," and comma_needed:
            position, comma_needed = position + 1, False
        elif character == "]" and open_lists:
            if open_lists == 2:
                group, index = group + 1, 0
            open_lists, position, comma_needed = open_lists - 1 or -1, position + 1, True  # -1: the outer one is closed
        elif comma_needed:
            fault = f"Expected ',' or ']', found {character!r}. The file is damaged; copy it again."
        elif open_lists < 2 and character == "[":
            open_lists, position = open_lists + 1, position + 1
        elif open_lists < 2:
            fault = f"Expected '[', found {character!r}. The file is a list of lists of equations."
        else:
            try:
                value, end = read_json(text, "The file is cut short or damaged.", position)
            except DataError as error:
                fault = str(error)
                break
            yield line, f"{group}-{index}", value
            line += text.count("\n", position, end)
            position, index, comma_needed = end, index + 1, True
    raise DataError(fault, path, line)


def from_dict(data: dict[str, Any], identity: str, source: str = "") -> Example:
    """One example of the format as plain data. Raises DataError that names it."""
    fault = ""
    try:
        equation = data["equation"]
        functions, texts = equation["func"].split(","), equation["vars"].split(",")
        has_blank = "blankNodeNum" in data
        numbers = [number for number in equation["nodeNum"].split(",") if number != ABSENT] if has_blank else []
        if len(functions) != len(texts):
            fault = f"'func' has {len(functions)} entries, 'vars' {len(texts)}."
        elif data["label"] not in _LABELS:
            fault = f"'label' is {data['label']!r}; it must be '1', '0' or '-1'."
        elif has_blank and data["blankNodeNum"] not in numbers:
            fault = f"'blankNodeNum' is {data['blankNodeNum']!r}, which is no node of the equation."
        # The tree without its `#` entries; the arity of an operator is the number of its children that are not `#`.
        nodes: list[tuple[str, str | None, int]] = []
        complete: list[int] = []  # per subtree whose parent comes next, the first one last: 0 for `#`, else 1
        for name, text in () if fault else zip(reversed(functions), reversed(texts), strict=True):
            if name == ABSENT:
                complete.append(0)
                continue
            if len(complete) < 2:
                fault = "'func' ends before the tree is complete."
                break
            arity = complete.pop() + complete.pop()
            nodes.append((name, LEAF_CLASSES[name] or text if name in LEAF_CLASSES else None, arity))
            complete.append(1)
        if not fault and complete != [1]:
            fault = "'func' goes on after the tree is complete."
        if not fault:
            tree = Expression.from_nodes(nodes[::-1]).recognised()
            blank = numbers.index(data["blankNodeNum"]) if has_blank else None
    except KeyError as error:
        fault = f"The key {error} is missing."
    except (ExpressionError, TypeError, AttributeError) as error:
        fault = str(error)
    if fault:
        group, _, index = identity.partition("-")
        raise DataError(f"group {group}, equation {index}: {fault}")
    value_class = str(data.get("class", ""))
    return Example(tree, _LABELS[data["label"]], identity, blank=blank, value_class=value_class, source=source)


def write(examples: Sequence[Example]) -> str:
    """The text of a file with these examples, grouped by depth, in order within a depth.

    Raises DataError for operators other than the papers'.
    """
    groups: list[list[dict[str, Any]]] = [[] for _ in range(1 + max((e.equation.depth for e in examples), default=0))]
    for example in examples:
        tree = example.equation
        if tree.signature.name != MATH.name:
            raise DataError(
                f"The authors' format has the operators of {MATH.name!r}, not of {tree.signature.name!r}. Use .jsonl."
            )
        texts = ["" if text is None else text for text in tree.texts]
        variables = {i: LETTERS.get(text, text) for i, kind, text in tree.leaves() if kind == "Symbol"}
        for i, name in variables.items():
            texts[i] = name
        absent = [0] * (tree.size + 1)  # `#` before every node, and at the end: after a subtree, those of its root
        for i, arity in enumerate(tree.arities):
            absent[tree.ends[i]] += 2 - arity
        columns = {"func": tree.names, "vars": texts, "depth": tree.heights, "nodeNum": range(tree.size)}
        equation: dict[str, Any] = {}
        for key, values in columns.items():
            equation[key] = ",".join(f"{value}{f',{ABSENT}' * absent[i]}" for i, value in enumerate(values, 1))
        equation["numNodes"] = str(tree.size)
        equation["variables"] = {name: i for i, name in enumerate(sorted({*variables.values()}))}
        data = {"equation": equation, "label": "-1" if example.label is None else str(example.label)}
        if example.blank is not None:
            data["blankNodeNum"] = str(example.blank)
        if example.value_class:
            data["class"] = example.value_class
        groups[tree.depth].append(data)
    return json.dumps(groups)
