"""The data in the wheel: small, with swaps only, so that little data suffices; the test set is deeper than the training set."""

from dgl_treestack.generate.presets._pairs import PairPreset

PRESET = PairPreset(
    summary="small, learnable in a minute; the bundled data",
    seed=2018,
    styles={"swap": 1.0},
    shares={"train": 0.55, "validation": 0.13, "test": 0.32},
    pairs={
        "test": {1: 3, 2: 20, **dict.fromkeys(range(3, 14), 200)},
        "validation": {1: 3, 2: 11, 3: 65, 4: 184, 5: 222, 6: 184, 7: 134},
        "train": {1: 6, 2: 50, 3: 300, 4: 850, 5: 1030, 6: 850, 7: 620},
    },
)
