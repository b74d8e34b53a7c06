"""The papers' own settings, where they differ from those that scale `day` gives to all models."""

from dgl_treestack.experiments._models import ALL_MODELS
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, Row, best_epoch, tested, validation

MALI = {"model.dropout": 0.1, "batch_size": 50, "optimizer.weight_decay": 2e-5, "schedule.plateau": 5}
DROPOUT = {"model.dropout": 0.1}
CHANGES = {
    "2nd order Tree-RNN": MALI,
    "MI-Tree-LSTM": MALI,
    "MTree-LSTM": MALI,
    "MI-Tree-LSTM+stack": MALI,
    "M-Tree-LSTM+stack": MALI,
    "Transformer": DROPOUT,
    "Tree Transformer": DROPOUT,
}

PROTOCOL = Protocol(
    "The papers' own settings",
    "Mali 2021, experimental setup; for the Transformers, of which Arabshahi 2020 says nothing, what is usual",
    tuple(
        row
        for label, changes in CHANGES.items()
        for row in (Row(label, ALL_MODELS[label]), Row(f"{label}, own", ALL_MODELS[label], changes=changes))
    ),
    (
        Column("best epoch", best_epoch),
        Column("validation", validation),
        Column("test 1-7", tested(1, 7)),
        Column("test 8-13", tested(8, 13)),
        Column("test 8-19", tested(8, 19, extra="deep")),
    ),
    extras=("deep",),
    compared=(Compared(8, 13), Compared(8, 19, "deep")),
    pairs=tuple((f"{label}, own", label) for label in CHANGES),
    seeds=3,
    unit="Epochs and per cent",
    note="Rows named own have dropout 0.1, and Mali's models batches of 50, weight decay 2e-5 and a learning rate that is "
    "halved after five epochs without progress. The number of epochs, early stopping and the learning rate are those of the "
    "other rows: with the learning rates that Mali prints, the models do not learn",
)
