"""Substitutivity: whether expressions of equal value have similar representations."""

from dgl_treestack.experiments._models import SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol
from dgl_treestack.results.metrics import clustered

PROTOCOL = Protocol(
    "Substitutivity",
    "Arabshahi 2020, Figures 5 and 7, which print no numbers",
    model_rows(TREE_MODELS, {}),
    (
        Column("neighbour", set="neighbours", depths=(1, 3)),
        Column("neighbour, untrained", set="untrained neighbours", depths=(1, 3)),
        Column("chance", clustered("chance"), "expressions"),
        Column("silhouette", clustered("silhouette", 100), "expressions"),
        Column("silhouette, untrained", clustered("silhouette", 100), "untrained expressions"),
    ),
    extras=("expressions", "untrained expressions", "neighbours", "untrained neighbours"),
    figures={"substitutivity": ("Tree-RNN, two layers", "Tree-LSTM", "Tree-SMU")},
    note="Expressions of depth 1-3 in value classes of five or more. Neighbour: per cent whose nearest neighbour by cosine has "
    "the same value; untrained: the same of the model with random initial values; chance: if neighbours were drawn at random; "
    "silhouette: by cosine, from -100 to 100. Differences are those of neighbours; expressions of a family have one value. "
    + SAME,
    compared=(Compared(1, 3, "neighbours", "expressions"),),
    pairs=(
        ("Tree-SMU", "Tree-LSTM"),
        ("Tree-LSTM", "Tree-RNN, two layers"),
        ("Tree-LSTM+stack", "Tree-LSTM"),
        ("Tree-RNN+stack", "Tree-RNN"),
        ("MI-Tree-LSTM+stack", "MI-Tree-LSTM"),
        ("M-Tree-LSTM+stack", "MTree-LSTM"),
    ),
)
