"""Models of the same hidden size and models with as many parameters: is it the cell or its size?"""

from dgl_treestack.experiments._models import SAME
from dgl_treestack.experiments._protocol import BEYOND, BY_DEPTH, Protocol, Row

PROTOCOL = Protocol(
    "Capacity",
    "Arabshahi 2020 calls the numbers of parameters of Tree-SMU and Tree-LSTM with one hidden size similar, and prints none",
    (
        Row("Tree-SMU, hidden 50", "tree_smu"),
        Row("Tree-LSTM, hidden 50", "tree_lstm"),
        Row("Tree-LSTM, hidden 60", "tree_lstm", {}, {"model.hidden": 60}),
        Row("LSTM, hidden 50", "lstm"),
        Row("LSTM, hidden 208", "lstm", {}, {"model.hidden": 208}),
        Row("M-Tree-LSTM+stack, hidden 50", "mtree_lstm_stack-searched"),
        Row("M-Tree-LSTM+stack, hidden 33", "mtree_lstm_stack-searched", {}, {"model.hidden": 33}),
    ),
    BY_DEPTH,
    extras=("deep 8-19",),
    compared=BEYOND,
    pairs=(
        ("Tree-SMU, hidden 50", "Tree-LSTM, hidden 60"),
        ("Tree-LSTM, hidden 60", "Tree-LSTM, hidden 50"),
        ("Tree-LSTM, hidden 50", "LSTM, hidden 208"),
        ("M-Tree-LSTM+stack, hidden 33", "Tree-SMU, hidden 50"),
    ),
    seeds=3,
    baselines=True,
    note="The numbers of parameters are below, among the settings; they count the weights of all operators, and computation is "
    "not matched: the LSTM uses all of its weights at every token. Rows with other hidden sizes than 50 have the learning rate "
    "that was searched with 50. " + SAME,
)
