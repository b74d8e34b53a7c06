"""Trains every configuration of a folder as `torchrun` does, in float64, and notes the loss of every step.

    torchrun --nproc-per-node N torchrun_script.py FOLDER OUTPUT [signal STEP | die STEP]

With `signal`, the last process gets SIGTERM after some steps; with `die`, it ends without a word, unless it was started again.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch

from dgl_treestack.errors import TreestackError
from dgl_treestack.processes import Interrupted
from dgl_treestack.runs import configuration
from dgl_treestack.training.start import start
from dgl_treestack.training.trees import TreeObjective


def train_all(folder: Path, output: Path, event: str = "", step: int = 0) -> None:
    """Train, and write the losses of the steps of this call to `losses.json`, by configuration."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    taken, losses = TreeObjective.step, {}

    def noted(self, *arguments):
        counts = taken(self, *arguments)
        losses.setdefault(self.config.name, []).append(counts.loss_sum / counts.seen)
        if len(losses[self.config.name]) == step and rank == size - 1:
            if event == "signal":
                os.kill(os.getpid(), signal.SIGTERM)
            elif event == "die" and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                os._exit(1)
        return counts

    TreeObjective.step = noted
    try:
        for path in sorted(folder.glob("run-*.toml")):
            start(configuration.load(path), 0, output, resume=bool(event) or (output / "losses.json").exists(), quiet=True)
    finally:
        TreeObjective.step = taken
        if rank == 0:
            output.joinpath("losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    try:
        train_all(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4], *map(int, sys.argv[4:]))
    except Interrupted as stop:
        sys.exit(stop.exit_code)
    except TreestackError as error:
        sys.exit(f"error: {error}")
