"""The objective of a text: the next word, in windows of parallel streams."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgl_treestack._torch import torch_generator
from dgl_treestack.data import records
from dgl_treestack.language.corpus import WordCorpus, files_of
from dgl_treestack.language.models import LanguageModel, streams, windows
from dgl_treestack.processes import Watch
from dgl_treestack.resources import sha256
from dgl_treestack.runs.configuration import ScheduleConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.sequence_configuration import TextConfig
from dgl_treestack.training.objective import Counts, Objective, Progress, optimizer_tensors, restore_optimizer

ENOUGH = 0.9999  # a validation loss below this multiple of the best is an improvement
PARTS = ("valid", "test")
_MOST_LOSS = 500.0  # of a token; beyond it a perplexity is not a finite number


class TextObjective(Objective):
    """The negative log-likelihood of the words of a text. The state at the end of a window is that at the start of the next."""

    model: LanguageModel
    margin, goes_back = ENOUGH, True

    def __init__(self, run: Run, config: TextConfig, seed: int):
        self.run, self.config = run, config
        self.schedule = ScheduleConfig(config.epochs, plateau=1, factor=config.factor, early_stopping=config.patience)
        self.learning_rate, self.checkpoint_steps = config.learning_rate, config.checkpoint_steps
        self.corpus = WordCorpus.read(Path(config.text))
        self.words = streams(self.corpus.parts["train"], config.streams)
        self.model = LanguageModel(config.cell(), len(self.corpus.words))
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        sizes = {part: len(tokens) for part, tokens in self.corpus.parts.items()}
        self.notes = [f"{run.folder.name}: {len(self.corpus.words)} words, {sizes}"]
        self.begin_epoch(0)

    def describe(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        data = {str(path): sha256(path) for path in files_of(Path(self.config.text)).values()}
        return {"vocabulary.json": json.dumps({"words": self.corpus.words}) + "\n"}, {"data": data}

    def begin_epoch(self, epoch: int) -> None:
        self.optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[self.config.optimizer](self.model.parameters())
        self.carried: dict[str, Tensor] | None = None

    def steps(self, epoch: int) -> int:
        return math.ceil((len(self.words) - 1) / self.config.window)

    def batches(self, epoch: int, step: int) -> Iterable[tuple[Tensor, Tensor]]:
        return windows(self.words[step * self.config.window :], self.config.window)

    def step(self, batch: tuple[Tensor, Tensor], progress: Progress, watch: Watch) -> Counts:
        inputs, targets = batch
        losses, last = self.model.losses(inputs, targets, self.carried)
        total = losses.sum().item()
        self._check(total / targets.numel(), progress)
        self.carried = {name: value.detach() for name, value in last.items()}
        self.optimizer.param_groups[0]["lr"] = progress.learning_rate
        self.optimizer.zero_grad()
        (losses.sum() / (targets.shape[1] if self.config.optimizer == "sgd" else targets.numel())).backward()
        torch.nn.utils.clip_grad_value_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        return Counts(total, targets.numel(), stop=watch.number)

    def validate(self, progress: Progress) -> tuple[dict[str, float], float]:
        loss = math.log(self.model.perplexity(self.corpus.parts["valid"]))
        self._check(loss, progress)
        return {"train_loss": progress.loss_sum / progress.seen, "validation_loss": loss}, -loss

    def summary(self, row: Mapping[str, Any]) -> str:
        return f"perplexity train {math.exp(row['train_loss']):.2f}, valid {math.exp(row['validation_loss']):.2f}"

    def evaluate(self, check: Callable[[], None]) -> None:
        perplexities = []
        for part in PARTS:
            check()
            perplexities.append(self.model.perplexity(self.corpus.parts[part]))
        columns = {"set": PARTS, "id": PARTS, "depth": [0] * len(PARTS), "perplexity": perplexities}
        records.write(self.run.answers, records.of_columns(columns))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        of_cell = {f"state/{name}": value for name, value in (self.carried or {}).items()}
        return optimizer_tensors(self.optimizer, dict(self.model.named_parameters())) | of_cell, {}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        restore_optimizer(self.optimizer, dict(self.model.named_parameters()), tensors)
        of_cell = {name.removeprefix("state/"): value for name, value in tensors.items() if name.startswith("state/")}
        self.carried = of_cell or None

    def _check(self, loss: float, progress: Progress) -> None:
        """Raise DivergenceError for a loss of a word whose perplexity is not a finite number."""
        if not loss < _MOST_LOSS:
            raise self.divergence(f"The loss of a word is {loss} in epoch {progress.epoch + 1}.")
