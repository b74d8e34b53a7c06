"""Accepted, certified equations that one core generates per second of CPU time, by depth.

    python benchmarks/generation.py [--equations 2000] [--preset paper]

An equation counts when it is a member of a pair that passed every check of `generate.pairs`: derived or refuted, certified,
new, in the preset's partition. The time includes the shard's row (keys, features, text), but not balancing.
"""

import gc
import time
from dataclasses import dataclass
from typing import Literal

import tyro

from dgl_treestack.generate import presets
from dgl_treestack.generate.assembly import PlanCell
from dgl_treestack.generate.presets import SetOptions, Shard
from dgl_treestack.generate.presets.paper import COUNTS

GROUPS = {
    "1-7": {depth: COUNTS[depth] for depth in range(2, 8)},
    "8-13": dict.fromkeys(range(8, 14), 1),
    "14-19": dict.fromkeys(range(14, 20), 1),
}


@dataclass
class Settings:
    """equations: approximate number per group of depths. preset: of the recipe. fold: of the families."""

    equations: int = 2000
    preset: Literal["paper", "deep", "quickstart"] = "paper"
    fold: str = "train"


def measure(settings: Settings, depths: dict[int, int]) -> tuple[int, float]:
    """Number of equations and CPU seconds, for depths with these weights."""
    preset, equations, seconds = presets.find(settings.preset), 0, 0.0
    for depth, weight in depths.items():
        pairs = max(1, round(settings.equations / 2 * weight / sum(depths.values())))
        shard = Shard(f"benchmark-{depth}", {"cell": list(PlanCell(0, settings.fold, depth)), "pairs": pairs})
        start = time.process_time()
        equations += 2 * sum(1 for _ in preset.make(SetOptions(seed=0), shard))
        seconds += time.process_time() - start
    return equations, seconds


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    gc.disable()  # as in the workers of `generate.production`
    measure(Settings(20, settings.preset, settings.fold), {5: 1})  # caches and imports
    total, spent = 0, 0.0
    for title, depths in GROUPS.items():
        equations, seconds = measure(settings, depths)
        print(f"depth {title:<6} {equations:>6} equations  {seconds:7.2f} s  {equations / seconds:7.0f} per second")
        if title != "1-7":
            total, spent = total + equations, spent + seconds
    print(f"depth 8-19   {total:>6} equations  {spent:7.2f} s  {total / spent:7.0f} per second")


if __name__ == "__main__":
    main()
