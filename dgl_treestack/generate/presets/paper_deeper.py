"""A second validation set for models that are trained on `paper`: equations deeper than the training data.

Made as `paper` is, but only from the families of its validation fold: no family is one of training or test.
"""

from dgl_treestack.generate.presets._pairs import PairPreset

PRESET = PairPreset(
    summary=(
        "9,000 equations of depth 8-10 from the validation families of `paper`, to choose settings by; --max-depth for more"
    ),
    seed=2021,
    accepts=frozenset({"max_depth", "equations", "no_cuts"}),
    partition="paper",
    pairs={"validation": dict.fromkeys(range(8, 11), 1500)},
)
