"""Substitutivity: whether expressions of equal value have similar representations."""

from dgl_treestack.experiments._models import SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Protocol, clustered

PROTOCOL = Protocol(
    "Substitutivity",
    "Arabshahi 2020, Figures 5 and 7, which print no numbers",
    model_rows(TREE_MODELS, {}),
    (
        Column("neighbour", clustered("agreement")),
        Column("chance", clustered("chance")),
        Column("silhouette", clustered("silhouette", 100)),
    ),
    extras=("expressions",),
    figures={"substitutivity": ("Tree-RNN, two layers", "Tree-LSTM", "Tree-SMU")},
    note="Expressions of depth 1-3 in value classes of five or more. Neighbour: per cent whose nearest neighbour by cosine has "
    "the same value; chance: if neighbours were drawn at random; silhouette: by cosine, from -100 to 100. " + SAME,
    compared=(),
    seeds=3,
)
