"""A set of candidate fillers with their value classes, and how both are written down.

A line of a candidate file is an expression without a label, with an `id` and the `class` it belongs to. The order is by depth,
size and text, and classes are numbered in that order, so that neither tells the truths from what was put beside them.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.lines import to_dict
from dgl_treestack.generate.completion.value_classes import ValueClasses
from dgl_treestack.generate.nodes import Node, to_expression


class CandidateSet:
    """Candidates over one pool; complete it before asking for its order or its classes."""

    def __init__(self) -> None:
        self._classes = ValueClasses()
        self._members: dict[Node, int] = {}
        self._refused: set[Node] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node: Node) -> bool:
        return node in self._members

    def add(self, node: Node) -> bool:
        """Whether the candidate is new and has a certified class, see `value_classes`."""
        if node in self._members or node in self._refused:
            return False
        number = self._classes.place(node)
        if number is None:
            self._refused.add(node)
            return False
        self._members[node] = number
        return True

    @cached_property
    def ordered(self) -> list[tuple[Node, str]]:
        """The candidates in file order, each with the name of its class."""
        texts = {node: str(to_expression(node)) for node in self._members}
        nodes = sorted(texts, key=lambda node: (node.depth, node.size, texts[node]))
        names: dict[int, str] = {}
        return [(node, names.setdefault(self._members[node], f"c{len(names)}")) for node in nodes]

    @cached_property
    def classes(self) -> dict[str, Node]:
        """Name of each class -> its first member."""
        return {name: node for node, name in reversed(self.ordered)}

    def class_of(self, node: Node) -> str:
        """The name of a candidate's class."""
        return self._names[node]

    @cached_property
    def _names(self) -> dict[Node, str]:
        return dict(self.ordered)

    def rows(self, prefix: str) -> Iterator[dict[str, Any]]:
        """The lines of the file; ids begin with `prefix`."""
        for number, (node, name) in enumerate(self.ordered):
            yield to_dict(Example(to_expression(node), None, f"{prefix}{number}", "test", value_class=name))
