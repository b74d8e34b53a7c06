"""Training a language model: a folder per run, saved after every epoch, from which a stopped run is resumed."""

import dataclasses
import json
import logging
import math
import time
from pathlib import Path
from typing import Any

import tomli_w
import torch
from tqdm.auto import tqdm

from dgl_treestack import atomic
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.generators import torch_generator
from dgl_treestack.language.configuration import LanguageConfig
from dgl_treestack.language.corpus import Corpus
from dgl_treestack.language.model import LanguageModel, streams, windows
from dgl_treestack.language.ngram import KneserNey
from dgl_treestack.processes import Watch, watch_signals
from dgl_treestack.runs.environment import GOES_ON_ELSEWHERE, describe_environment, with_resumption
from dgl_treestack.runs.weights import load_into, read_weights, write_weights

logger = logging.getLogger("dgl_treestack")
Row = tuple[str, dict[str, float]]
ENOUGH = 0.9999  # a validation entropy below this multiple of the best is an improvement
_MOST_ENTROPY = 500.0  # natural logarithm; beyond it a perplexity is not a finite number


class Run:
    """A run of a language model in a folder, new or resumed.

    The folder has config.toml, environment.json, words.json, metrics.jsonl, best.safetensors, last.safetensors, result.json and
    DONE. Raises ConfigurationError if it belongs to another run, or exists and `resume` is off.
    """

    def __init__(self, folder: Path, config: LanguageConfig, corpus: Corpus, seed: int, *, resume: bool, quiet: bool):
        self.folder, self.config, self.corpus, self.seed, self.quiet = folder, config, corpus, seed, quiet
        self.model = LanguageModel(config.cell(), len(corpus.words))
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        self.rate, self.stale, self.rows = config.learning_rate, 0, list[dict[str, Any]]()
        self.best = math.inf  # validation perplexity of best.safetensors
        config_text = tomli_w.dumps(dataclasses.asdict(config))
        if (folder / "config.toml").exists():
            if not resume:
                raise ConfigurationError(f"{folder} exists. Give --resume to continue it, or another --output-dir.")
            self._resume(config_text)
        else:
            origin = {"seed": seed, "text": corpus.checksums, **describe_environment("cpu")}
            atomic.write_text(folder / "words.json", json.dumps(corpus.words) + "\n")
            self._write_origin(origin)
            atomic.write_text(folder / "config.toml", config_text)

    def _resume(self, config_text: str) -> None:
        """Continue after the last epoch that was saved. Raises ConfigurationError if configuration or text have changed."""
        if (self.folder / "config.toml").read_text() != config_text:
            raise ConfigurationError(f"{self.folder} is a run of another configuration. Give another --output-dir.")
        origin = json.loads((self.folder / "environment.json").read_text())
        if origin["text"] != self.corpus.checksums:
            raise ConfigurationError(f"{self.folder} is a run on another text. Give another --output-dir.")
        last = self.folder / "last.safetensors"
        if last.exists():
            tensors, state = read_weights(last)
            load_into(self.model, tensors, last)
            self.rate, self.stale, self.best, self.rows = state["rate"], state["stale"], state["best"], state["rows"]
        if not self.done.exists():
            origin, changes = with_resumption(origin, len(self.rows), "cpu")
            if changes:
                logger.warning(GOES_ON_ELSEWHERE, self.folder, changes)
                self._write_origin(origin)

    def _write_origin(self, origin: dict[str, Any]) -> None:
        atomic.write_text(self.folder / "environment.json", json.dumps(origin, indent=1) + "\n")

    @property
    def done(self) -> Path:
        """The file that is written last."""
        return self.folder / "DONE"

    def train(self) -> None:
        """Train all epochs, then evaluate the best weights. After Ctrl-C or SIGTERM, raises Interrupted; the run resumes after
        the last saved epoch."""
        with watch_signals() as watch:
            while len(self.rows) < self.config.epochs and self.stale < self.config.patience:
                self._epoch(watch)
                watch.check()
        best = self.folder / "best.safetensors"
        if not best.exists():
            raise CheckpointError(f"{best} is gone, and only it had the best weights. Train again.")
        tensors, _ = read_weights(best)
        load_into(self.model, tensors, best)
        result = {part: self.model.perplexity(self.corpus.parts[part]) for part in ("valid", "test")}
        atomic.write_text(self.folder / "result.json", json.dumps(result, indent=1) + "\n")
        atomic.write_text(self.done, "")

    def _epoch(self, watch: Watch) -> None:
        """Train one epoch, then close it."""
        started = time.process_time()
        config, text = self.config, streams(self.corpus.parts["train"], self.config.streams)
        optimizer_class = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[config.optimizer]
        optimizer = optimizer_class(self.model.parameters(), lr=self.rate)
        total, count, state = 0.0, 0, None
        self.model.train()
        steps = math.ceil((len(text) - 1) / config.window)
        title = f"{self.folder.name} epoch {len(self.rows) + 1}/{config.epochs}"
        bar = tqdm(windows(text, config.window), total=steps, desc=title, disable=self.quiet or None, leave=False)
        for inputs, targets in bar:
            watch.check()
            losses, last = self.model.losses(inputs, targets, state)
            state = {name: value.detach() for name, value in last.items()}
            optimizer.zero_grad()
            (losses.sum() / (targets.shape[1] if config.optimizer == "sgd" else targets.numel())).backward()
            torch.nn.utils.clip_grad_value_(self.model.parameters(), config.clip)
            optimizer.step()
            total, count = total + losses.sum().item(), count + targets.numel()
            self._check_finite(total / count)
            bar.set_postfix_str(f"perplexity {math.exp(total / count):.1f}", refresh=False)
        self._close(math.exp(total / count), started)

    def _check_finite(self, entropy: float) -> None:
        if not entropy < _MOST_ENTROPY:
            raise DivergenceError(f"The entropy is {entropy} in epoch {len(self.rows) + 1}. Lower learning_rate.")

    def _close(self, train: float, started: float) -> None:
        """Validate; save the best weights, or restore them with a lower rate; save the state. started: CPU time of the process
        at the start of the epoch."""
        valid = self.model.perplexity(self.corpus.parts["valid"])
        self._check_finite(math.log(valid))
        row = {"epoch": len(self.rows) + 1, "rate": self.rate, "train": train, "valid": valid}
        self.rows.append({**row, "cpu_seconds": round(time.process_time() - started, 3)})
        logger.info("%s epoch %d: perplexity train %.2f, valid %.2f", self.folder.name, len(self.rows), train, valid)
        best = self.folder / "best.safetensors"
        if math.isinf(self.best) or math.log(valid) < ENOUGH * math.log(self.best):
            write_weights(best, self.model.state_dict(), {"epoch": len(self.rows)})
            self.best, self.stale = valid, 0
        else:
            self.rate, self.stale = self.rate * self.config.factor, self.stale + 1
            tensors, _ = read_weights(best)
            load_into(self.model, tensors, best)
        state = {"rate": self.rate, "stale": self.stale, "best": self.best, "rows": self.rows}
        write_weights(self.folder / "last.safetensors", self.model.state_dict(), state)
        atomic.write_text(self.folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows))


def train(
    configs: list[LanguageConfig], data: Path, output_dir: Path, seeds: list[int], *, resume: bool, quiet: bool
) -> list[Row]:
    """Train every configuration with every seed on the text of a folder.

    Returns the perplexities of n-grams and of every run: its label and the values of `valid` and `test`. Raises DataError for
    malformed text, ConfigurationError, DivergenceError, CheckpointError for damaged weights, and Interrupted.
    """
    corpus = Corpus.read(data)
    logger.info("%s: %d words, %s", data, len(corpus.words), {part: len(tokens) for part, tokens in corpus.parts.items()})
    torch.set_num_threads(1)
    pairs = [(config, seed) for config in configs for seed in seeds]
    runs = [Run(output_dir / f"{c.name}-{seed}", c, corpus, seed, resume=resume, quiet=quiet) for c, seed in pairs]
    rows = ngram_perplexities(corpus)
    for run in runs:
        if not run.done.exists():
            run.train()
        rows.append((run.folder.name, json.loads((run.folder / "result.json").read_text())))
    return rows


def ngram_perplexities(corpus: Corpus) -> list[Row]:
    """Return the perplexities of a 5-gram without and with a cache: label, and the values of `valid` and `test`."""
    grams, rows = KneserNey(corpus.parts["train"], len(corpus.words)), list[Row]()
    for label, cache in (("5-gram", False), ("5-gram with cache", True)):
        rows.append((label, {part: grams.perplexity(corpus.parts[part], cache=cache) for part in ("valid", "test")}))
        logger.info("%s: perplexity valid %.2f", label, rows[-1][1]["valid"])
    return rows
