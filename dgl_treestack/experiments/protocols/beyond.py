"""Tree-Slots and the value signal: what each part brings, and the same signal for the papers' models (docs/beyond.md)."""

from dgl_treestack.experiments._protocol import OURS, TRAIN, VALIDATION, Column, Compared, Protocol, Row

SLOTS, LSTM, SMU = "beyond/tree_slots", "beyond/tree_lstm", "beyond/tree_smu"
SLOWER = {"optimizer.learning_rate": 5e-3}  # of rows for which validation prefers it to the common rate
PLAIN = {  # the papers' model and loss
    "signals.value": 0.0,
    "model.head_settings.verification.compare": "dot",
    "optimizer.method": "muon",
    **SLOWER,
}

# Sizes are such that every row of Tree-Slots has about as many parameters of operators as the first.
PROTOCOL = Protocol(
    "Beyond the papers: slots and values",
    OURS,
    (
        Row("Tree-Slots", SLOTS),
        Row("no signal", SLOTS, changes={"signals.value": 0.0, **SLOWER}),
        Row("equivalence in place of values", SLOTS, changes={"signals.value": 0.0, "signals.equivalence": 1.0}),
        Row("equivalence and values", SLOTS, changes={"signals.equivalence": 1.0}),
        Row("dot product of the sides", SLOTS, changes={"model.head_settings.verification.compare": "dot", **SLOWER}),
        Row("slots mixed", SLOTS, changes={"model.settings.mixed": True, "model.settings.inner": 52}),
        Row("own networks per slot", SLOTS, changes={"model.settings.shared": False, "model.settings.inner": 8}),
        Row("one slot", SLOTS, changes={"model.settings.slots": 1, "model.settings.inner": 48, "model.hidden": 48}),
        Row("no normalisation", SLOTS, changes={"model.settings.normalise": False, **SLOWER}),
        Row("one layer", SLOTS, changes={"model.settings.layers": 1, "model.hidden": 672}),
        Row("Tree-LSTM, values", LSTM),
        Row("Tree-LSTM", LSTM, changes=PLAIN),
        Row("Tree-SMU, values", SMU),
        Row("Tree-SMU", SMU, changes=PLAIN),
    ),
    (
        TRAIN,
        VALIDATION,
        Column("test 8-13", depths=(8, 13)),
        Column("test 8-19", set="deep", depths=(8, 19)),
    ),
    extras=("deep",),
    compared=(Compared(8, 13), Compared(8, 19, "deep")),
    pairs=(
        ("Tree-Slots", "slots mixed"),
        ("Tree-Slots", "Tree-SMU, values"),
        ("Tree-SMU, values", "Tree-SMU"),
        ("Tree-LSTM, values", "Tree-LSTM"),
        ("no signal", "Tree-SMU"),
    ),
    figures={"depth": ("Tree-Slots", "no signal", "Tree-LSTM, values", "Tree-LSTM", "Tree-SMU, values", "Tree-SMU")},
)
