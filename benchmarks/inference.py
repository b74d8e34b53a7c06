"""A forward pass without gradients, for every cell, engine and peer, in CPU time of one thread; see `steps` and README.md.

python -m benchmarks.inference --cells tree_smu --batches 32 1024 [--no-shared] [--dropout 0.1] [--json]
"""

import tyro

from benchmarks.common import show, start
from benchmarks.steps import Settings, measure

if __name__ == "__main__":
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show(measure(settings, training=False), settings.json)
