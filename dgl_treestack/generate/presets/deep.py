"""The papers' second test set: the same number of equations at every depth up to 19 or deeper, with other `Habits` than
`paper`."""

from dgl_treestack.generate.grow import Habits
from dgl_treestack.generate.presets import Options
from dgl_treestack.generate.presets._pairs import Cell, PairPreset, Plan, Recipe, scaled

PAIRS = 5000  # at each depth
FEWER = {1: 3, 2: 70, 3: 2500}  # at shallow depths, which have fewer distinct equations
DEPTH = 19
BLOCK_STARTS = (5, 8, 14, 20, 30)  # depths 1-4 are one block, 5-7 the next, and so on


class Deep(PairPreset):
    """For tests only: it shares no canonical key with `paper` and no family with the training fold of `paper`."""

    summary = "10,000 equations at every depth from 4 to 19, fewer at 1 to 3, for tests; --max-depth for deeper ones"
    seed = 2020
    accepts = frozenset({"max_depth", "equations", "no_cuts"})
    recipe = Recipe(
        styles={"swap": 0.5, "buried": 0.2, "false rule": 0.3},
        partition="deep",
        shares={"train": 0.6, "test": 0.4},  # the families of the training fold of `paper` are `train` here, and unused
        habits=Habits(variables=(0.4, 0.4, 0.2), constant=0.3, decoy=0.35, expansion=0.05, steps=(0.66, 0.17, 0.17)),
    )

    def plan(self, options: Options) -> Plan:
        depths = range(1, (options.max_depth or DEPTH) + 1)
        plan = {Cell(sum(d >= start for start in BLOCK_STARTS), "test", d): FEWER.get(d, PAIRS) for d in depths}
        return scaled(plan, options.equations)


PRESET = Deep()
