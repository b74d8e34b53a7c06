"""The papers' main set: depths 1-13 with the counts of Mali 2021, Table 1, but every label certified and half of them 1."""

import math

from dgl_treestack.generate.presets._contract import Options
from dgl_treestack.generate.presets._pairs import FOLDS, Cell, PairPreset, Plan, Recipe, scaled

# Equations per depth in Mali 2021, Table 1.
COUNTS = {1: 21, 2: 355, 3: 2542, 4: 7508, 5: 9442, 6: 7957, 7: 6146, 8: 3634, 9: 1999, 10: 1124, 11: 677, 12: 300, 13: 189}
TRAINING_DEPTH = 7  # the papers train up to here and test beyond
# Share of each depth's pairs that a fold gets, up to that depth and beyond.
SHALLOW = {"train": 0.8, "validation": 0.1, "test": 0.1}
DEEP = {"train": 0.4, "validation": 0.1, "test": 0.5}
SATURATED = 2  # up to this depth there is nothing new for further blocks of training data


class Paper(PairPreset):
    """The productivity, systematicity and localism protocols all select folds and depths of this one set."""

    summary = "depths 1-13 with the papers' counts; --train-size for more training data"
    seed = 2019
    accepts = frozenset({"train_size", "equations"})
    recipe = Recipe(styles={"swap": 0.5, "buried": 0.2, "false rule": 0.3}, partition="paper")

    def plan(self, options: Options) -> Plan:
        """One block of evaluation cells, then training blocks of the usual size until there are enough."""
        cells = [Cell(int(fold == "train"), fold, depth) for fold in FOLDS for depth in COUNTS]
        plan = scaled({cell: _pairs(cell.depth, cell.fold) for cell in cells}, options.equations)
        block = {cell.depth: pairs for cell, pairs in plan.items() if cell.fold == "train"}
        blocks = options.train_size / (2 * sum(n for d, n in block.items() if d <= TRAINING_DEPTH)) or 1.0
        for number in range(math.ceil(blocks)):
            share = min(1.0, blocks - number)
            depths = [depth for depth in block if not number or depth > SATURATED]
            plan |= {Cell(1 + number, "train", depth): math.ceil(share * block[depth]) for depth in depths}
        return plan


def _pairs(depth: int, fold: str) -> int:
    shares = SHALLOW if depth <= TRAINING_DEPTH else DEEP
    evaluated = {fold: round(shares[fold] * COUNTS[depth] / 2) for fold in ("validation", "test")}
    return evaluated[fold] if fold in evaluated else round(COUNTS[depth] / 2) - sum(evaluated.values())


PRESET = Paper()
