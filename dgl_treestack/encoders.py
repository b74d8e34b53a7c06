"""The contract of an encoder: a model that reads a subtree as a whole, not node by node; and the table of those there are."""

import abc
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack import tokens
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.forest import Forest
from dgl_treestack.tokens import Trees

HOMES = ("dgl_treestack.sequence.encoder", "dgl_treestack.attention.transformer", "dgl_treestack.attention.tree_transformer")


class Encoder(nn.Module, abc.ABC):
    """A vector of width H for a subtree. leaves: rows of the vocabulary. operators: how many the signature has. dropout: as a
    subclass says."""

    def __init__(self, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0):
        super().__init__()
        if hidden < 1 or not 0 <= dropout < 1:
            raise ConfigurationError(f"'hidden' is {hidden} and 'dropout' {dropout}; at least 1, and from 0 to below 1.")
        self.leaves, self.tokens, self.hidden, self.dropout = leaves, tokens.count(leaves, operators), hidden, dropout
        self.signs = leaves + operators
        self.table = nn.Parameter(torch.empty(self.tokens, hidden))

    @abc.abstractmethod
    def encode(self, trees: Trees, nodes: Tensor) -> Tensor:
        """(K, H) for the subtrees with tops `nodes` (K,)."""

    def forward(self, graph: DGLGraph, nodes: Tensor) -> Tensor:
        """(..., H) for nodes (...) of a batched graph. Equal subtrees are read once, unless dropout makes them differ."""
        trees, tops = Trees.of(graph, self.leaves), nodes.flatten()
        if "subtree" not in graph.ndata or (self.training and self.dropout):
            return self.encode(trees, tops).unflatten(0, nodes.shape)
        _, first, uses = np.unique(graph.ndata["subtree"][tops].numpy(), return_index=True, return_inverse=True)
        found = self.encode(trees, tops[torch.from_numpy(first)])
        return found[torch.from_numpy(uses).to(found.device)].unflatten(0, nodes.shape)

    def check(self, forest: Forest, sources: Sequence[str]) -> None:
        """Raise DataError for a number without a row in the vocabulary: an encoder embeds tokens alone. sources: of trees."""
        numbers = (forest.op < 0) & (forest.token < 0)
        if numbers.any():
            node = int(numbers.argmax())
            kind, text = forest.leaves[forest.leaf[node]]
            tree = int(np.searchsorted(forest.offsets, node, side="right")) - 1
            raise DataError(
                f"{kind} {text} has no row in the vocabulary, and sequence and attention models have no number encoder. "
                f"Leave such equations out, or take a tree model.",
                sources[tree] or None,
            )

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values: N(0, 1) for the table; a subclass draws its own."""
        nn.init.normal_(self.table, generator=generator)


@dataclass(frozen=True)
class EncoderModel:
    """A row of the table, as `cells.Model` is for cells. adds: one phrase on what it is. hidden: the usual width."""

    encoder: type[Encoder]
    paper: str
    equations: str
    adds: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    hidden: int = 50


@cache
def encoders() -> dict[str, EncoderModel]:
    """Every encoder by name."""
    return {name: model for home in HOMES for name, model in importlib.import_module(home).MODELS.items()}


def build(name: str, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0, **settings: Any) -> Encoder:
    """The encoder of a model name, uninitialised. Raises ConfigurationError for an unknown name or setting."""
    if name not in encoders():
        raise ConfigurationError(unknown("model", name, encoders()))
    model = encoders()[name]
    try:
        return model.encoder(leaves, operators, hidden, dropout=dropout, **{**model.settings, **settings})
    except TypeError as error:
        raise ConfigurationError(f"Model {name!r}: {str(error).split('() ')[-1]}.") from None
