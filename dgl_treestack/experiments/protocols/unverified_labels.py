"""Labels as the papers make them: what models and counts reach on them, and what such models know of certified equations."""

from collections.abc import Sequence

from dgl_treestack.experiments._models import ALL_MODELS, model_rows
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, best_epoch, tested, validation

MODELS: Sequence[str] = ("LSTM", "Tree-RNN, two layers", "Tree-LSTM", "Tree-SMU")

PROTOCOL = Protocol(
    "Unverified labels",
    "labels made in the way of Arabshahi 2019, 2020 and Mali 2021",
    model_rows({label: ALL_MODELS[label] for label in MODELS}, {}),
    (
        Column("best epoch", best_epoch),
        Column("validation", validation),
        Column("test 8-13", tested(8, 13)),
        Column("certified, 1-7", tested(1, 7, extra="certified")),
        Column("certified, 8-13", tested(8, 13, extra="certified")),
    ),
    data="paper-labels",
    extras=("certified",),
    compared=(Compared(8, 13), Compared(8, 13, "certified")),
    pairs=(("Tree-SMU", "Tree-LSTM"), ("Tree-LSTM", "Tree-RNN, two layers"), ("Tree-LSTM", "LSTM")),
    seeds=3,
    unit="Epochs and per cent",
    note="Trained and tested on the set `paper-labels` (at scale `smoke` on the bundled equations): made as the papers make "
    "their equations, true ones derived and false ones a mutation away from those, with labels that nobody verified. "
    "Certified: the test set of `paper`, in which true and false equations are balanced in counts; 13 of its 3,394 equations "
    "of depth 1-7, and none deeper, are also in the training set",
    baselines=True,
)
