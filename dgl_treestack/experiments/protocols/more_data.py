"""More training equations: how far Tree-Slots goes, beside the best of the papers' models with the same signal."""

from dgl_treestack.experiments._protocol import BEST_EPOCH, OURS, VALIDATION, Column, Compared, Protocol, Row

SLOTS, SMU = "beyond/tree_slots-1m", "beyond/tree_smu"
HALF = {"data.percent": 54.43}  # 500,000 of 918,566 training equations of depth 1-7

PROTOCOL = Protocol(
    "Beyond the papers: more data",
    OURS,
    (
        Row("Tree-Slots", SLOTS),
        Row("Tree-Slots, 500,000", SLOTS, changes=HALF),
        Row("Tree-SMU, values", SMU, changes={"schedule.epochs": 6}),
    ),
    (
        BEST_EPOCH,
        VALIDATION,
        Column("test 1-7", depths=(1, 7)),
        Column("test 8-13", depths=(8, 13)),
        *(Column(f"deep {low}-{high}", set="deep", depths=(low, high)) for low, high in ((8, 13), (14, 19), (8, 19))),
    ),
    extras=("deep",),
    compared=(Compared(8, 13), Compared(8, 19, "deep")),
    pairs=(("Tree-Slots", "Tree-Slots, 500,000"), ("Tree-Slots", "Tree-SMU, values")),
    unit="Epochs and per cent",
)
