"""Tree-SMU against a Tree-LSTM with as many parameters: the effect of the stack without that of size."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, validation

PROTOCOL = Protocol(
    "Capacity",
    "Arabshahi 2020 reports similar numbers of parameters; here Tree-SMU at 50 and Tree-LSTM at 60 differ by 2 per cent",
    (
        Row("Tree-SMU, hidden 50", "tree_smu"),
        Row("Tree-LSTM, hidden 50", "tree_lstm"),
        Row("Tree-LSTM, hidden 60", "tree_lstm", {}, {"model.hidden": 60}),
    ),
    (Column("validation", validation), Column("test 1-7", tested(1, 7)), Column("test 8-13", tested(8, 13))),
    pairs=(("Tree-SMU, hidden 50", "Tree-LSTM, hidden 60"), ("Tree-LSTM, hidden 60", "Tree-LSTM, hidden 50")),
    seeds=3,
)
