"""The runs of the experiment on language models: every model of the paper, its seeds, at every scale."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w
import torch

from dgl_treestack import atomic
from dgl_treestack.cluster import Command
from dgl_treestack.errors import DivergenceError
from dgl_treestack.generate.presets import text
from dgl_treestack.language import configuration
from dgl_treestack.language.configuration import LanguageConfig
from dgl_treestack.language.corpus import Corpus
from dgl_treestack.language.training import Run
from dgl_treestack.plain_data import replaced
from dgl_treestack.processes import Interrupted, Jobs, start_many
from dgl_treestack.resources import find_config

logger = logging.getLogger("dgl_treestack")

CONFIGS = {"RNN": "rnn", "LSTM": "lstm", "SCRN": "scrn", "Stack RNN": "stack_rnn"}


@dataclass(frozen=True)
class Extent:
    """The scale of the experiment. sentences: of the text. seeds: how many. changes: values replaced in all configurations."""

    sentences: int = text.SENTENCES
    seeds: int = 3
    changes: Mapping[str, Any] = field(default_factory=lambda: {"streams": 8})


@dataclass(frozen=True)
class Planned:
    """A run: label of its model in the table, configuration, seed, folder."""

    label: str
    config: LanguageConfig
    seed: int
    folder: Path

    @property
    def is_done(self) -> bool:
        return (self.folder / "DONE").exists()

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return a row per epoch."""
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]


EXTENTS = {
    "smoke": Extent(300, 1, {"streams": 8, "epochs": 1, "hidden": 48, "window": 20}),
    "day": Extent(),
    "paper": Extent(),
}


def plan_runs(folder: Path, extent: Extent, seed: int) -> list[Planned]:
    """Return all runs. The name of a configuration has a hash of it and of the text's size."""
    plan = []
    for label, name in CONFIGS.items():
        config = replaced(configuration.load(find_config(f"language_model/{name}")), extent.changes.items())
        key = json.dumps([asdict(config), extent.sentences], sort_keys=True)
        config = replace(config, name=f"{config.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}")
        numbers = range(seed, seed + extent.seeds)
        plan += [Planned(label, config, number, folder / "runs" / f"{config.name}-{number}") for number in numbers]
    return plan


def train_runs(plan: Sequence[Planned], corpus: Corpus, data: Path, jobs: Jobs) -> None:
    """Train runs, in this process or, with several jobs or on a cluster, in processes of their own. Raises Interrupted."""
    if jobs != 1:
        commands = []
        for planned in plan:
            output_dir = planned.folder.parent
            file = output_dir.parent / "configs" / f"{planned.config.name}.toml"
            atomic.write_text(file, tomli_w.dumps(asdict(planned.config)))
            options = ("--data", str(data), "--seed", str(planned.seed), "--output-dir", str(output_dir), "--resume", "--quiet")
            commands.append(Command(("train", str(file), *options), output_dir, (file,)))
        code = start_many(commands, jobs)
        if code > 128:
            raise Interrupted(code - 128)
        return
    torch.set_num_threads(1)
    for planned in plan:
        try:
            Run(planned.folder, planned.config, corpus, planned.seed, resume=True, quiet=False).train()
        except DivergenceError as error:
            logger.error("%s: %s", planned.folder.name, error)
