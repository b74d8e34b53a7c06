"""Sample efficiency: trained on shares of the training equations."""

from dgl_treestack.experiments._protocol import BEYOND, BY_DEPTH, Protocol, Row

MODELS = (
    ("Tree-RNN", "tree_rnn_tanh"),
    ("Tree-LSTM", "tree_lstm"),
    ("Tree-SMU", "tree_smu"),
)
SHARES = (10, 25, 50, 80, 90, 100)

PROTOCOL = Protocol(
    "Sample efficiency",
    "Arabshahi 2019, Figure 6, and Arabshahi 2020, Figure 3b, which print no numbers",
    tuple(Row(f"{label}, {share} %", name, {}, {"data.percent": float(share)}) for label, name in MODELS for share in SHARES),
    BY_DEPTH,
    extras=("deep 8-19",),
    compared=BEYOND,
    pairs=(
        *((f"Tree-SMU, {share} %", "Tree-LSTM, 100 %") for share in (50, 80, 90)),
        ("Tree-SMU, 50 %", "Tree-LSTM, 50 %"),
        ("Tree-LSTM, 100 %", "Tree-LSTM, 50 %"),
    ),
    figures={
        "learning_curve": (),
        "depth": (
            "Tree-LSTM, 50 %",
            "Tree-LSTM, 100 %",
            "Tree-SMU, 50 %",
            "Tree-SMU, 80 %",
            "Tree-SMU, 90 %",
            "Tree-SMU, 100 %",
        ),  # Figure 3b
    },
    note="The pairs are what the papers say of their figures (80 % is of 2019, 50 and 90 % of 2020), and Tree-SMU, 50 %, "
    "beside Tree-LSTM, 50 %. Each share is one draw of pairs of equations, the same for all models and seeds, which contains "
    "all smaller ones: no p-value covers other draws. Seeds of different shares are paired by number only. Validation is the "
    "same for all. Learning rates are those chosen for all training equations, and rows without a network are fitted to all "
    "of them",
    seeds=3,
    baselines=True,
)
