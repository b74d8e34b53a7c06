"""Canonical keys of nodes: the same as `folds.canonical_key`, but shared subtrees are digested once."""

from weakref import WeakKeyDictionary

from dgl_treestack.generate.folds import Part, Renaming, close, leaf_part, part, renamings
from dgl_treestack.generate.nodes import Node


class Keys:
    """Remembers the digests of nodes for as long as these live."""

    def __init__(self) -> None:
        self._parts: WeakKeyDictionary[Node, dict[tuple[str, ...], Part]] = WeakKeyDictionary()

    def key(self, *sides: Node) -> str:
        """The canonical key of one side, or of the equation between two."""
        variables = tuple(dict.fromkeys(name for side in sides for name in side.variables))
        return min(self._digest(sides, renamed) for renamed in renamings(variables)).hex()

    def _digest(self, sides: tuple[Node, ...], renamed: Renaming) -> bytes:
        parts = [self._part(side, renamed) for side in sides]
        return close(part("Equality", parts) if len(parts) == 2 else parts[0])

    def _part(self, node: Node, renamed: Renaming) -> Part:
        order = tuple(renamed[name] for name in node.variables)
        known = self._parts.get(node)
        if known is None:
            known = self._parts[node] = {}
        if order not in known:
            if node.text is not None:
                known[order] = leaf_part(node.name, node.text, renamed)
            else:
                known[order] = part(node.name, [self._part(child, renamed) for child in node.children])
        name, terms = known[order]
        return name, [*terms]  # a copy: whoever stands above may add to it
