"""The papers' main set: depths 1-13 with the counts of Mali 2021, Table 1, but every label certified and half of them 1."""

import math

from dgl_treestack.generate.presets import Options
from dgl_treestack.generate.presets._pairs import FOLDS, Cell, PairPreset, Plan, Recipe, scaled

# Equations per depth in Mali 2021, Table 1.
COUNTS = {1: 21, 2: 355, 3: 2542, 4: 7508, 5: 9442, 6: 7957, 7: 6146, 8: 3634, 9: 1999, 10: 1124, 11: 677, 12: 300, 13: 189}
TRAINING_DEPTH = 7  # the papers train up to this depth and test beyond it
# Share of a depth's pairs in the evaluation folds, up to that depth and beyond; the others are for training.
SHALLOW = {"validation": 0.1, "test": 0.1}
DEEP = {"validation": 0.1, "test": 0.5}
SATURATED = 2  # up to this depth there are no new equations for more blocks of training data


class Paper(PairPreset):
    """The productivity, systematicity and localism protocols all select folds and depths of this one set."""

    summary = "depths 1-13 with the papers' counts; --train-size for more training data"
    seed = 2019
    accepts = frozenset({"train_size", "equations", "no_cuts"})
    recipe = Recipe(partition="paper")

    def plan(self, options: Options) -> Plan:
        """Plan one block of evaluation cells, then training blocks of the default size until there are enough equations."""
        pairs: dict[str, dict[int, int]] = {fold: {} for fold in FOLDS}
        for depth, equations in COUNTS.items():
            for fold, share in (SHALLOW if depth <= TRAINING_DEPTH else DEEP).items():
                pairs[fold][depth] = round(share * equations / 2)
            pairs["train"][depth] = round(equations / 2) - pairs["validation"][depth] - pairs["test"][depth]
        plan = {Cell(int(fold == "train"), fold, depth): pairs[fold][depth] for fold in FOLDS for depth in COUNTS}
        plan = scaled(plan, options.equations)
        block = {cell.depth: count for cell, count in plan.items() if cell.fold == "train"}
        blocks = options.train_size / (2 * sum(n for depth, n in block.items() if depth <= TRAINING_DEPTH)) or 1.0
        for number in range(math.ceil(blocks)):
            share = min(1.0, blocks - number)
            depths = [depth for depth in block if not number or depth > SATURATED]
            plan |= {Cell(1 + number, "train", depth): math.ceil(share * block[depth]) for depth in depths}
        return plan


PRESET = Paper()
