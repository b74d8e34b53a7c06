"""A training step of native code, in wall time, by the number of threads of its sweeps.

python -m benchmarks.threads --cells tree_smu tree_lstm --batches 256 1024 --threads 1 2
"""

import time
from dataclasses import dataclass

import tyro

from benchmarks.common import Row, in_turn, make_batches, make_model, show, start
from benchmarks.steps import training_step
from dgl_treestack.propagate import set_threads


@dataclass
class Settings:
    """Wall times need free cores: one for every thread."""

    cells: tuple[str, ...] = ("tree_smu", "tree_lstm")
    batches: tuple[int, ...] = (32, 256, 1024)
    threads: tuple[int, ...] = (1, 2)
    hidden: int = 64
    rounds: int = 7
    json: bool = False


def measure(settings: Settings) -> list[Row]:
    """Rows of the benchmark, one per cell, batch size and number of threads."""
    rows: list[Row] = []
    for cell in settings.cells:
        for size in settings.batches:
            model = make_model(cell, settings.hidden)
            step = training_step(model, "levels/compiled", make_batches(model, size, shared=True))

            def run(i: int, threads: int, step=step) -> None:
                set_threads(threads)
                step(i)

            ways = {str(count): lambda i, count=count, run=run: run(i, count) for count in settings.threads}
            calls = dict.fromkeys(ways, max(1, 600 // size))
            seconds = in_turn(ways, calls, settings.rounds, clock=time.perf_counter)
            slowest = max(seconds.values())
            rows += [
                {"cell": cell, "batch": size, "threads": count, "ms": 1e3 * of_count, "times": slowest / of_count}
                for count, of_count in seconds.items()
            ]
    return rows


if __name__ == "__main__":
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show(measure(settings), settings.json)
