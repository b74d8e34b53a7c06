"""Equation completion by models that were trained to verify: where do they rank what was blanked?"""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, filled

PROTOCOL = Protocol(
    "Completion",
    "Arabshahi 2020, Figure 4, which prints no numbers; its candidates are of depth 1 and 2",
    (Row("Tree-RNN", "tree_rnn_tanh"), Row("Tree-LSTM", "tree_lstm"), Row("Tree-SMU", "tree_smu")),
    tuple(Column(f"{kind} top-{most}", filled(kind, most)) for kind in ("raw", "class", "collapse") for most in (1, 5)),
    blanks=True,
)
