"""The papers' second test set: the same number of equations at every depth up to 19 or deeper, with other `Habits` than
`paper`.

For tests only: it shares no canonical key with `paper` and no family with the training fold of `paper`.
"""

from dgl_treestack.generate.grow import Habits
from dgl_treestack.generate.presets._pairs import PairPreset

PRESET = PairPreset(
    summary="10,000 equations at every depth from 4 to 19, fewer at 1 to 3, for tests; --max-depth for deeper ones",
    seed=2020,
    accepts=frozenset({"max_depth", "equations", "no_cuts"}),
    partition="deep",
    shares={"train": 0.6, "test": 0.4},  # the families of the training fold of `paper` are `train` here, and unused
    habits=Habits(variables=(0.4, 0.4, 0.2), constant=0.3, decoy=0.35, expansion=0.05, steps=(0.66, 0.17, 0.17)),
    pairs={"test": {1: 3, 2: 70, 3: 2500, **dict.fromkeys(range(4, 20), 5000)}},  # few shallow ones exist
    block_starts=(5, 8, 14, 20, 30),
)
