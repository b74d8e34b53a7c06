"""A row of the table of models: a name, the class and settings behind it, and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.cells._contract import Cell


@dataclass(frozen=True)
class Model:
    """cell: the class. settings: its keyword arguments beyond size, dropout and sharing. paper, equations: the source.
    adds: one phrase on what it adds to what stands before it."""

    cell: type[Cell]
    paper: str
    equations: str
    adds: str
    settings: Mapping[str, Any] = field(default_factory=dict)
