"""Equation completion by models that were trained to verify: the rank of the expression that was blanked."""

from dgl_treestack.experiments._models import MAIN, SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, filled

PROTOCOL = Protocol(
    "Completion",
    "Arabshahi 2020, Figure 4, and Mali 2021, Figure 3, which print no numbers",
    model_rows(TREE_MODELS, {}),
    (
        *(Column(f"{kind} top-{limit}", filled(kind, limit)) for kind in ("raw", "class", "collapse") for limit in (1, 5)),
        Column("deep, class top-1", filled("class", 1, "deep blanks")),
        Column("deep, collapse top-5", filled("collapse", 5, "deep blanks")),
    ),
    extras=("blanks", "deep blanks"),
    figures={"completion": MAIN},
    note="Blanks of depth 0-2 (the paper of 2020 has 1-2, its files 0-1), and of depth 1-13 with a thousand candidates each "
    "(deep) as in 2021. Differences are those of class top-1. " + SAME,
    compared=(Compared(1, 19, "blanks", "blanks"), Compared(1, 19, "deep blanks", "blanks")),
    pairs=(("Tree-SMU", "Tree-LSTM"), ("Tree-LSTM", "Tree-RNN, two layers"), ("M-Tree-LSTM+stack", "Tree-SMU")),
)
