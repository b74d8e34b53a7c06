"""Mali's cells with their second-order terms and without."""

from dgl_treestack.experiments._models import ALL_MODELS, FIRST_ORDER
from dgl_treestack.experiments._protocol import Column, Compared, Protocol, Row, tested, validation

PAPER = {  # accuracy on test equations, without a standard deviation
    "MTree-LSTM": 87.25,
    "MTree-LSTM, first order": 84.59,
    "MI-Tree-LSTM": 87.80,
    "MI-Tree-LSTM, first order": 84.59,
    "MI-Tree-LSTM+stack": 88.25,
    "MI-Tree-LSTM+stack, first order": 86.51,
    "M-Tree-LSTM+stack": 89.04,
    "M-Tree-LSTM+stack, first order": 86.88,
}
MODELS = {**ALL_MODELS, **FIRST_ORDER}

PROTOCOL = Protocol(
    "Second order against first",
    "Mali 2021, Table 5 (printed under the caption of Table 4)",
    (
        *(Row(label, MODELS[label], {"test 8-13": (accuracy, None)}) for label, accuracy in PAPER.items()),
        *(Row(label, MODELS[label]) for label in ("Tree-LSTM", "Tree-LSTM+stack")),
    ),
    (
        Column("validation", validation),
        Column("test 8-13", tested(8, 13)),
        Column("deep 8-19", tested(8, 19, extra="deep 8-19")),
    ),
    extras=("deep 8-19",),
    compared=(Compared(8, 13), Compared(8, 19, "deep 8-19")),
    pairs=(
        *((first.removesuffix(", first order"), first) for first in FIRST_ORDER),
        ("MTree-LSTM, first order", "Tree-LSTM"),
        ("MI-Tree-LSTM, first order", "Tree-LSTM"),
    ),
    note="First order: sums in place of the products, m = W x + R z in MTree-LSTM and MI(a, b) = a + b in MI-Tree-LSTM, which "
    "then is a Tree-LSTM whose node also has its children as input. The paper does not define its first-order models; it gives "
    "both without a stack 84.59, and Tree-LSTM 86.80 in its Table 3",
    seeds=3,
)
