"""Canonical keys of nodes: the same as `folds.canonical_key`, but shared subtrees are digested once."""

from dgl_treestack.generate.folds import Part, Renaming, close, leaf_part, part, renamings
from dgl_treestack.generate.nodes import Node

_PARTS = "parts"  # under this name a node remembers its parts, by what its variables are renamed to


def key_of(*sides: Node) -> str:
    """The canonical key of one side, or of the equation between two."""
    variables = tuple(dict.fromkeys(name for side in sides for name in side.variables))
    return min(_digest(sides, renamed) for renamed in renamings(variables)).hex()


def _digest(sides: tuple[Node, ...], renamed: Renaming) -> bytes:
    parts = [_part(side, renamed) for side in sides]
    return close(part("Equality", parts) if len(parts) == 2 else parts[0])


def _part(node: Node, renamed: Renaming) -> Part:
    order = tuple([renamed[name] for name in node.variables])
    known: dict[tuple[str, ...], Part] | None = node.memory.get(_PARTS)
    if known is None:
        known = node.memory[_PARTS] = {}
    if order not in known:
        if node.text is not None:
            known[order] = leaf_part(node.name, node.text, renamed)
        else:
            known[order] = part(node.name, [_part(child, renamed) for child in node.children])
    name, terms = known[order]
    return name, [*terms]  # a copy: whoever stands above may add to it
