"""Equation completion by models that were trained to verify: the rank of the expression that was blanked."""

from dgl_treestack.experiments._models import MAIN, SAME, TREE_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol
from dgl_treestack.results.metrics import percent, top

MODELS = ("Tree-RNN", *MAIN, "MTree-LSTM")

PROTOCOL = Protocol(
    "Completion",
    "Arabshahi 2020, Figure 4, and Mali 2021, Figure 3, which print no numbers",
    model_rows({label: TREE_MODELS[label] for label in MODELS}, {}),
    (
        *(Column(f"{kind} top-{limit}", top(kind, limit), "blanks") for kind in ("raw", "class") for limit in (1, 5)),
        Column("collapse top-5", top("collapse", 5), "blanks"),  # its top-1 is that of the class
        *(Column(f"blanks of depth 1-2, class top-{limit}", top("class", limit, depth=1), "blanks") for limit in (1, 5)),
        Column("always the value that is most frequent", percent("constant"), "blanks"),
        Column("chance", percent("chance"), "blanks"),
        Column("deep, class top-1", top("class", 1), "deep blanks"),
        Column("deep, collapse top-5", top("collapse", 5), "deep blanks"),
        Column("deep, always the value that is most frequent", percent("constant"), "deep blanks"),
        Column("deep, chance", percent("chance"), "deep blanks"),
    ),
    extras=("blanks", "deep blanks"),
    figures={"completion": MAIN},
    note="Blanks of depth 0-2 (the paper of 2020 has 1-2, its files 0-1), and blanks of depth 1-13 with a thousand candidates "
    "of their depth each (deep). Raw: rank of the blanked expression itself; class: of the first candidate of equal value; "
    "collapse: of its value, where only the best candidate of every value counts. Without a "
    "model, class top-1: always the value that fills most blanks, and a candidate at random. Differences are those of class "
    "top-1. " + SAME,
    compared=(Compared(1, 19, "blanks", "blanks"), Compared(1, 19, "deep blanks", "blanks")),
    pairs=(
        ("Tree-SMU", "Tree-LSTM"),
        ("Tree-SMU", "Tree-RNN, two layers"),
        ("Tree-LSTM", "Tree-RNN, two layers"),
        ("M-Tree-LSTM+stack", "Tree-SMU"),
    ),
)
