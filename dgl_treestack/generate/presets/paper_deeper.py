"""A second validation set for models that are trained on `paper`: equations deeper than the training data."""

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.generate.presets import Options
from dgl_treestack.generate.presets._pairs import Cell, PairPreset, Plan, Recipe, scaled

PAIRS = 1500  # at each depth
SHALLOWEST, DEEPEST = 8, 10  # depths without --max-depth


class PaperDeeper(PairPreset):
    """Made as `paper` is, but only from the families of its validation fold: no family is one of training or test."""

    summary = (
        "9,000 equations of depth 8-10 from the validation families of `paper`, to choose settings by; --max-depth for more"
    )
    seed = 2021
    accepts = frozenset({"max_depth", "equations", "no_cuts"})
    recipe = Recipe(styles={"swap": 0.5, "buried": 0.2, "false rule": 0.3}, partition="paper")

    def plan(self, options: Options) -> Plan:
        deepest = options.max_depth or DEEPEST
        if deepest < SHALLOWEST:
            raise ConfigurationError(
                f"--max-depth is {deepest}, but the equations of `paper-deeper` have depth {SHALLOWEST} at least."
            )
        depths = range(SHALLOWEST, deepest + 1)
        return scaled({Cell(0, "validation", depth): PAIRS for depth in depths}, options.equations)


PRESET = PaperDeeper()
