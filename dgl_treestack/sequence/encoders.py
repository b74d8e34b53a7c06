"""The contract of encoders, which read a subtree as a whole, not node by node, and the table of their model names.

The file `NAME_encoder.py` of an encoder defines a class derived from `Encoder`, and `MODELS`, which maps model names to
`CellSpec`; the table collects these files.
"""

import abc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack.cells import specs_of
from dgl_treestack.data.forest import Columns, Source, columns, uncompiled
from dgl_treestack.data.vocabulary import NO_OPERATOR, NO_TOKEN
from dgl_treestack.data.wellformed import written_out_sizes
from dgl_treestack.errors import ConfigurationError, GraphError
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import number, whole
from dgl_treestack.resources import Registry, read_module
from dgl_treestack.sequence._tokens import SIGNS, Trees

DEPTH = "depth"  # as many rounds or loops as a tree is deep

MOST_PADDING = 4.0  # ratio of padded to real nodes, beyond which trees are encoded in groups of similar size
NO_ENCODER = "Sequence and attention models have no number encoder: leave such equations out, or use a tree model."


def draw_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the matrices of a module by Glorot's uniform rule; biases are 0, scales of normalisation 1."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.constant_(parameter, float(isinstance(part, nn.LayerNorm) and name == "weight"))


class Encoder(nn.Module, abc.ABC):
    """Base of all encoders: a vector (H,) for a subtree. A subclass defines `written` and `read`, and where dropout acts.

    leaves: rows of the vocabulary. operators: number of operators of the signature. hidden: H.
    Attributes: `table` (tokens, H), the embeddings of all tokens, and `signs`, the number of the first sign; see `_tokens`.
    `steps`: of a path that are read, at most; 0 if there are no paths. `by_dgl`: whether DGL computes it, on its own devices.
    """

    steps = 0
    by_dgl = False

    def __init__(self, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0):
        super().__init__()
        self.leaves, self.hidden, self.dropout = leaves, whole(hidden, "hidden", 1, 10**6), number(dropout, "dropout", 0, 1)
        self.signs = leaves + operators
        self.tokens = self.signs + len(SIGNS)
        self.table = nn.Parameter(torch.empty(self.tokens, hidden))

    def encode(self, trees: Trees) -> Tensor:
        """Return the vectors (K, H) of K trees."""
        return self.read(*(torch.from_numpy(values) for values in self.written(trees)))

    @abc.abstractmethod
    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        """Return K trees as tokens (K, T), 0 beyond the end, lengths (K,), and, if they are read, paths (K, T, D)."""

    @abc.abstractmethod
    def read(self, tokens: Tensor, lengths: Tensor, *paths: Tensor, fixed: bool = False) -> Tensor:
        """Return the vectors (K, H) of what `written` returns.

        fixed: the tensors are on this device, and the operations the same for all of this shape, longer than any tree or not.
        """

    def distinct(self, batch: Columns, tops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes to encode for nodes `tops` (K,), and the index among them for each: with dropout all, else one of
        equal subtrees."""
        if self.training and self.dropout:
            return tops, np.arange(len(tops))
        _, first, position = np.unique(batch.subtree[tops], return_index=True, return_inverse=True)
        return tops[first], position

    @uncompiled
    def forward(
        self, source: Source, nodes: Tensor, signature: Signature = MATH, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the vectors (..., H) of the trees below nodes (...) of a batch.

        Equal trees are encoded once, except with dropout, which is drawn from the seed of the generator, or from torch's own.
        Raises GraphError for a graph that is not well formed, or has a number without a row in the vocabulary.
        """
        batch = columns(source, signature, self.leaves)
        numbers = (batch.op == NO_OPERATOR) & (batch.token == NO_TOKEN)
        if numbers.any():
            node = int(numbers.argmax())
            raise GraphError(f"Node {node} is the number {batch.number[node]:g} without a row in the vocabulary. {NO_ENCODER}")
        tops = nodes.flatten().cpu().numpy()
        if not len(tops):
            return self.table.new_zeros(*nodes.shape, self.hidden)
        device = self.table.device
        # Dropout of torch takes no generator, so the global one is seeded and put back.
        with torch.random.fork_rng([device] if device.type == "cuda" else [], enabled=generator is not None):
            if generator is not None:
                torch.manual_seed(generator.initial_seed())
            tops, position = self.distinct(batch, tops)
            sizes, groups = written_out_sizes(batch.children, batch.height, tops)[tops], [np.arange(len(tops))]
            if len(tops) * sizes.max() > MOST_PADDING * sizes.sum():
                # Most of a common sequence would be padding, as with all phrases of trees.
                group_of_tree = (np.log(sizes) / np.log(MOST_PADDING)).astype(np.int64)
                groups = [np.flatnonzero(group_of_tree == group) for group in np.unique(group_of_tree)]
            vectors = torch.cat([self.encode(Trees.below(batch, tops[trees], self.leaves)) for trees in groups])
            order = np.argsort(np.concatenate(groups))[position]
            return vectors[torch.from_numpy(order).to(device, non_blocking=True)].unflatten(0, nodes.shape)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values: N(0, 1) for the table. A subclass draws its own parameters after that."""
        nn.init.normal_(self.table, generator=generator)


encoders = Registry("model", Path(__file__).parent.glob("*_encoder.py"), read_module, partial(specs_of, Encoder)).table


def build(name: str, leaves: int, operators: int, hidden: int, *, dropout: float = 0.0, **settings: Any) -> Encoder:
    """Return the encoder of a model name, uninitialised. settings: override those of the name.

    Raises ConfigurationError for an unknown setting.
    """
    spec = encoders()[name]
    try:
        encoder: Encoder = spec.cell(leaves, operators, hidden, dropout=dropout, **{**spec.settings, **settings})
        return encoder
    except TypeError as error:
        raise ConfigurationError(f"Model {name!r}: {str(error).split('() ')[-1]}.") from None
