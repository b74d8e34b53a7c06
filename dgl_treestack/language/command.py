"""`treestack train --data`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.language import configuration, training
from dgl_treestack.resources import find_config
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.start import check_seeds


def train_language(
    names: Sequence[str],
    data: Path,
    output_dir: Path,
    seeds: Sequence[int],
    *,
    assignments: Sequence[str] = (),
    resume: bool,
    quiet: bool,
) -> int:
    """Train language models on a text. Returns the exit code. Raises ConfigurationError, DataError."""
    if not names:
        raise ConfigurationError("Name at least one configuration, such as configs/language_model/stack_rnn.toml.")
    check_seeds(seeds)
    configs = [configuration.load(find_config(name), assignments) for name in names]
    if len({config.name for config in configs}) < len(configs):
        raise ConfigurationError("Two configurations have the same name, which names their folders.")
    try:
        training.train(configs, data, output_dir, list(seeds), resume=resume, quiet=quiet)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return stop.exit_code
    return 0
