"""The learning rate of every model, on validation, from one list for all."""

from collections.abc import Mapping, Sequence

from dgl_treestack.experiments._models import ALL_MODELS, FIRST_ORDER
from dgl_treestack.experiments._protocol import BEST_EPOCH, VALIDATION, Protocol, Row

RATES = (3e-4, 1e-3, 3e-3)
FURTHER: Mapping[str, Sequence[float]] = {  # rates beyond an end of the list, while that end is the best
    **dict.fromkeys(
        (
            "LSTM",
            "Stack-RNN",
            "Tree-RNN",
            "Tree-RNN+stack",
            "Tree-RNN+stack+no-op",
            "MI-Tree-LSTM",
            "MI-Tree-LSTM+stack",
            "MI-Tree-LSTM+stack, first order",
        ),
        (1e-2,),
    ),
    **dict.fromkeys(
        (
            "Tree-LSTM",
            "Tree-LSTM+stack",
            "Tree-LSTM+stack+normalize",
            "Tree-LSTM+stack+normalize+no-op",
            "Tree-SMU",
            "Tree-SMU - no-op",
        ),
        (1e-2, 3e-2),
    ),
    "2nd order Tree-RNN": (3e-6, 1e-5, 3e-5, 1e-4),
    "Transformer": (1e-4,),
}
# Models that are searched further: with a size, and with dropout at the best rate.
WIDER = tuple(
    Row(f"LSTM, hidden 208, {rate:g}", "lstm", changes={"model.hidden": 208, "optimizer.learning_rate": rate})
    for rate in (1e-3, 3e-3)
)
WITH_DROPOUT = tuple(
    Row(f"{label}, {rate:g}, dropout 0.1", ALL_MODELS[label], changes={"optimizer.learning_rate": rate, "model.dropout": 0.1})
    for label, rate in (("Transformer", 3e-4), ("Tree Transformer", 1e-3))
)

PROTOCOL = Protocol(
    "Choice of learning rates",
    "Settings of the other experiments",
    tuple(
        Row(f"{label}, {rate:g}", config, changes={"optimizer.learning_rate": rate})
        for label, config in {**ALL_MODELS, **FIRST_ORDER}.items()
        for rate in sorted({*RATES, *FURTHER.get(label, ())})
    )
    + WIDER
    + WITH_DROPOUT,
    (BEST_EPOCH, VALIDATION),
    note="The rate of the best validation accuracy is that of all rows of the other experiments with this configuration, "
    "whatever their stack size, share of the data or training depths. Where the best is at an end of the list, the next "
    "beyond it is tried. One seed, so that neighbouring rates are often within noise. The last rows are about other settings: "
    "the rate of the larger LSTM of `capacity`, and dropout for the Transformers, which have none in the other experiments",
    figures={},
    compared=(),
    unit="Epochs and per cent",
    seeds=1,
)
