"""The papers' main set: depths 1-13 with the counts of Mali 2021, Table 1, but every label certified and half of them 1."""

import math

from dgl_treestack.generate.assembly import PlanCell
from dgl_treestack.generate.presets import SetOptions
from dgl_treestack.generate.presets._pairs import PairPreset, Plan

# Equations per depth in Mali 2021, Table 1.
COUNTS = {1: 21, 2: 355, 3: 2542, 4: 7508, 5: 9442, 6: 7957, 7: 6146, 8: 3634, 9: 1999, 10: 1124, 11: 677, 12: 300, 13: 189}
TRAINING_DEPTH = 7  # the papers train up to this depth and test beyond it
# Share of a depth's pairs in the evaluation folds, up to that depth and beyond; the others are for training.
SHARES = {"test": (0.1, 0.5), "validation": (0.1, 0.1)}
SATURATED = 2  # up to this depth there are no new equations for more blocks of training data

PAIRS = {
    fold: {depth: round(shares[depth > TRAINING_DEPTH] * count / 2) for depth, count in COUNTS.items()}
    for fold, shares in SHARES.items()
}
PAIRS["train"] = {depth: round(count / 2) - sum(PAIRS[fold][depth] for fold in SHARES) for depth, count in COUNTS.items()}


class Paper(PairPreset):
    """The productivity, systematicity and localism protocols all select folds and depths of this one set."""

    def plan(self, options: SetOptions) -> Plan:
        """Plan one block of evaluation cells, then training blocks of the default size until there are enough equations."""
        whole = super().plan(options)
        plan = {cell: pairs for cell, pairs in whole.items() if cell.fold != "train"}
        block = {cell.depth: pairs for cell, pairs in whole.items() if cell.fold == "train"}
        blocks = options.train_size / (2 * sum(n for depth, n in block.items() if depth <= TRAINING_DEPTH)) or 1.0
        for number in range(math.ceil(blocks)):
            share = min(1.0, blocks - number)
            depths = [depth for depth in block if not number or depth > SATURATED]
            plan |= {PlanCell(1 + number, "train", depth): math.ceil(share * block[depth]) for depth in depths}
        return plan


PRESET = Paper(
    summary="depths 1-13 with the papers' counts; --train-size for more training data",
    seed=2019,
    accepts=frozenset({"train_size", "equations", "no_cuts"}),
    partition="paper",
    pairs=PAIRS,
)
