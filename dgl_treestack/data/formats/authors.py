"""The JSON of the authors' release: a list of groups, group i holding the equations of depth i.

A tree is written in pre-order with two children for every node, `#` standing for an absent one. Only names and the texts
of variables and numbers are believed: node numbers and depths are recomputed, `Pi`, `Half` and the like have the text they
always have. The blank of a completion file is found by its node number.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack.data.formats.example import Example
from dgl_treestack.data.formats.source import fault, read_text
from dgl_treestack.data.vocabulary import variable_name
from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.leaves import LEAF_CLASSES
from dgl_treestack.expression.operators import MATH

ABSENT = "#"
_LABELS = {"1": 1, "0": 0, "-1": None}
_SPACE = re.compile(r"[ \t\n\r]*")


def read(path: Path) -> Iterator[Example]:
    """The examples of a file, decoded one at a time. The id is `group-index`."""
    decoder, scanner = json.JSONDecoder(), _Scanner(path, read_text(path))
    scanner.expect("[")
    group = 0
    while not scanner.take("]"):
        scanner.expect("[")
        index = 0
        while not scanner.take("]"):
            line = scanner.line
            try:
                data = scanner.value(decoder)
                yield from_dict(data, f"{group}-{index}", f"{path}:{line}")
            except (ExpressionError, KeyError, TypeError, AttributeError) as error:
                reason = f"The key {error} is missing." if isinstance(error, KeyError) else str(error)
                raise DataError(f"group {group}, equation {index}: {reason}", path, line) from None
            index += 1
            scanner.take(",")
        group += 1
        scanner.take(",")


class _Scanner:
    """A position in a JSON text, with the line it is in."""

    def __init__(self, path: Path, text: str):
        self.path, self.text, self.position, self.line = path, text, 0, 1

    def _advance(self, position: int) -> None:
        self.line += self.text.count("\n", self.position, position)
        self.position = position

    def _skip_space(self) -> None:
        found = _SPACE.match(self.text, self.position)
        assert found is not None  # the pattern matches nothing, too
        self._advance(found.end())

    def take(self, character: str) -> bool:
        self._skip_space()
        if self.position >= len(self.text):
            raise DataError("The file ends inside a list. It is cut short; copy it again.", self.path, self.line)
        found = self.text[self.position] == character
        if found:
            self._advance(self.position + 1)
        return found

    def expect(self, character: str) -> None:
        if not self.take(character):
            raise DataError(
                f"Expected {character!r}, found {self.text[self.position]!r}. The file is a list of lists of equations.",
                self.path,
                self.line,
            )

    def value(self, decoder: json.JSONDecoder) -> Any:
        self._skip_space()
        try:
            value, position = decoder.raw_decode(self.text, self.position)
        except (ValueError, RecursionError) as error:
            raise DataError(f"Not JSON: {fault(error)}. The file is cut short or damaged.", self.path, self.line) from None
        self._advance(position)
        return value


def from_dict(data: dict[str, Any], identity: str, source: str = "") -> Example:
    """One example of the format as plain data. Raises ExpressionError, or KeyError for a missing key."""
    equation = data["equation"]
    functions, texts = equation["func"].split(","), equation["vars"].split(",")
    if len(functions) != len(texts):
        raise ExpressionError(f"'func' has {len(functions)} entries, 'vars' {len(texts)}.")
    if data["label"] not in _LABELS:
        raise ExpressionError(f"'label' is {data['label']!r}; it must be '1', '0' or '-1'.")
    tree = _tree(functions, texts)
    return Example(
        equation=tree,
        label=_LABELS[data["label"]],
        id=identity,
        blank=_blank(data, equation) if "blankNodeNum" in data else None,
        value_class=str(data.get("class", "")),
        source=source,
    )


def _tree(functions: Sequence[str], texts: Sequence[str]) -> Expression:
    """Drop the `#` entries; an operator's arity is the number of its two places that are filled."""
    nodes: list[tuple[str, str | None, int]] = []
    parents: list[list[int]] = []  # (node, places still open) of the operators above
    for i, (name, text) in enumerate(zip(functions, texts, strict=True)):
        if nodes and not parents:
            raise ExpressionError(f"'func' goes on after the tree is complete, at entry {i}.")
        if parents:
            parents[-1][1] -= 1
        if name != ABSENT:
            if parents:
                node = parents[-1][0]
                nodes[node] = (nodes[node][0], nodes[node][1], nodes[node][2] + 1)
            nodes.append((name, LEAF_CLASSES[name] or text if name in LEAF_CLASSES else None, 0))
            parents.append([len(nodes) - 1, 2])
        while parents and parents[-1][1] == 0:
            parents.pop()
    if parents:
        raise ExpressionError("'func' ends before the tree is complete.")
    tree = Expression.from_nodes(nodes)
    is_equation = tree.names[0] == tree.signature.root
    return Equation(tree.names, tree.texts, tree.arities) if is_equation else tree


def _blank(data: dict[str, Any], equation: dict[str, Any]) -> int:
    numbers = [number for number in equation["nodeNum"].split(",") if number != ABSENT]
    if data["blankNodeNum"] not in numbers:
        raise ExpressionError(f"'blankNodeNum' is {data['blankNodeNum']!r}, which is no node of the equation.")
    return numbers.index(data["blankNodeNum"])


def write(examples: Sequence[Example]) -> str:
    """The text of a file with these examples, grouped by depth, in order within a depth."""
    groups: list[list[dict[str, Any]]] = [[] for _ in range(1 + max((e.equation.depth for e in examples), default=0))]
    for example in examples:
        groups[example.equation.depth].append(_to_dict(example))
    return json.dumps(groups)


def _to_dict(example: Example) -> dict[str, Any]:
    tree = example.equation
    if tree.signature.name != MATH.name:
        raise DataError(f"The authors' format has the operators of {MATH.name!r}, not of {tree.signature.name!r}. Use .jsonl.")
    columns = _columns(tree)
    variables = sorted({variable_name(text) for _, kind, text in tree.leaves() if kind == "Symbol"})
    data: dict[str, Any] = {
        "equation": {
            **{key: ",".join(column) for key, column in columns.items()},
            "numNodes": str(tree.size),
            "variables": {name: i for i, name in enumerate(variables)},
        },
        "label": "-1" if example.label is None else str(example.label),
    }
    if example.blank is not None:
        data["blankNodeNum"] = str(example.blank)
    if example.value_class:
        data["class"] = example.value_class
    return data


def _columns(tree: Expression) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"func": [], "vars": [], "depth": [], "nodeNum": []}
    pending: list[int | None] = [0]
    while pending:
        node = pending.pop()
        if node is None:
            entry = [ABSENT] * 4
        else:
            children = tree.children(node)
            if len(children) > 2:
                raise DataError(f"The authors' format has two places a node; {tree.names[node]!r} has {len(children)}.")
            pending += [None] * (2 - len(children)) + list(reversed(children))
            entry = [tree.names[node], _text(tree, node), str(tree.heights[node]), str(node)]
        for column, value in zip(columns.values(), entry, strict=True):
            column.append(value)
    return columns


def _text(tree: Expression, node: int) -> str:
    text = tree.texts[node] or ""
    return variable_name(text) if tree.names[node] == "Symbol" else text
