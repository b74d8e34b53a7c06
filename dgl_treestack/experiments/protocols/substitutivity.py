"""Substitutivity: do expressions of one value, however written, have one representation?"""

from dgl_treestack.experiments._models import SAME, every_tree_model
from dgl_treestack.experiments._protocol import Column, Protocol, clustered

PROTOCOL = Protocol(
    "Substitutivity",
    "Arabshahi 2020, Figures 5 and 7, which print no numbers",
    every_tree_model({}),
    (
        Column("neighbour", clustered("agreement")),
        Column("chance", clustered("chance")),
        Column("silhouette", clustered("silhouette", 100)),
    ),
    extras=("expressions",),
    figures=("substitutivity",),
    drawn=("Tree-RNN", "Tree-LSTM", "Tree-SMU"),
    note="Expressions of depth 1-3 in value classes of five or more. Neighbour: per cent whose nearest neighbour by cosine has "
    "the same value; chance: if neighbours were drawn at random; silhouette: by cosine, from -100 to 100. " + SAME,
    compared=(),
)
