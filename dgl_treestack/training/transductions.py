"""The objective of transductions: a net reads a sequence, then as many queries as there are outputs, and says one at each."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack._torch import numpy_generator, torch_generator
from dgl_treestack.algorithmic.transductions import TRANSDUCTIONS, Transduction
from dgl_treestack.data import records
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.processes import Watch
from dgl_treestack.runs.configuration import ScheduleConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.sequence_configuration import TransductionConfig
from dgl_treestack.sequence import RotaryTransformer, SequenceCell, draw_as_layer
from dgl_treestack.training.objective import Counts, Objective, Progress, optimizer_tensors, restore_optimizer


class Transducer(nn.Module):
    """A net that reads sequences, with the layer that gives the logits of the outputs: y = V h + b."""

    def __init__(self, reader: SequenceCell | RotaryTransformer, answers: int):
        super().__init__()
        self.reader, self.output = reader, nn.Linear(reader.hidden, answers)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise a cell as a layer of a net, another reader by its own rule, V and b from U(-1 / sqrt(H), 1 / sqrt(H))."""
        if isinstance(self.reader, SequenceCell):
            draw_as_layer(self.reader, generator)
        else:
            self.reader.reset_parameters(generator)
        bound = self.reader.hidden**-0.5
        for parameter in self.output.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, inputs: Tensor, outputs: int) -> Tensor:
        """Return the logits (O, B, answers) at the last O of the inputs (T, B), which are numbers of symbols."""
        h, _ = self.reader.unroll(functional.one_hot(inputs, self.reader.inputs).to(self.output.weight.dtype))
        logits: Tensor = self.output(h[-outputs:])
        return logits


class TransductionObjective(Objective):
    """The cross-entropy of the outputs, averaged over a batch of sequences of one length (Delétang et al. 2023, section 4).

    Adam with a constant rate, gradients clipped to a norm; the weights of the last epoch are evaluated. Every batch is drawn
    anew, so that the accuracy in training is that on unseen sequences.
    """

    model: Transducer

    def __init__(self, run: Run, config: TransductionConfig, seed: int):
        if config.transduction not in TRANSDUCTIONS:
            raise ConfigurationError(unknown("transduction", config.transduction, TRANSDUCTIONS))
        self.run, self.config, self.seed, self.task = run, config, seed, TRANSDUCTIONS[config.transduction]
        self.schedule, self.learning_rate = ScheduleConfig(config.epochs), config.learning_rate
        self.checkpoint_steps = config.checkpoint_steps
        self.model = Transducer(config.reader(len(self.task.symbols) + 1), len(self.task.answers))
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        self.optimizer = torch.optim.Adam(self.model.parameters(), config.learning_rate)

    def describe(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        words = {"words": [*self.task.symbols, "query"], "answers": list(self.task.answers)}
        return {"vocabulary.json": json.dumps(words) + "\n"}, {}

    def steps(self, epoch: int) -> int:
        return self.config.steps

    def batches(self, epoch: int, step: int) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        for number in range(step, self.config.steps):
            generator = numpy_generator(self.seed, f"{self.config.transduction}, train", epoch, number)
            yield self.task.batch(self.config.batch, int(generator.integers(1, self.config.largest + 1)), generator)

    def step(self, batch: tuple[Tensor, Tensor, Tensor], progress: Progress, watch: Watch) -> Counts:
        inputs, outputs, counted = batch
        logits = self.model(inputs, len(outputs))
        loss = functional.cross_entropy(logits.flatten(0, 1), outputs.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip).item()
        if not math.isfinite(loss.item() + norm):
            raise self.divergence(f"In epoch {progress.epoch + 1} a loss is {loss.item()}, the norm of its gradient {norm}.")
        self.optimizer.step()
        seen = int(counted.sum())
        return Counts(loss.item() * seen, seen, _right(logits, outputs, counted), stop=watch.number)

    def validate(self, progress: Progress) -> tuple[dict[str, float], float]:
        row = {"train_loss": progress.loss_sum / progress.seen, "train_accuracy": progress.right / progress.seen}
        return row, float(progress.epoch + 1)

    def summary(self, row: Mapping[str, Any]) -> str:
        return f"train loss {row['train_loss']:.4f}, accuracy {100 * row['train_accuracy']:.1f} %"

    def evaluate(self, check: Callable[[], None]) -> None:
        lengths, shares = self.config.tested_lengths, []
        for length in lengths:
            check()
            shares.append(share_right(self.task, self.model, length, self.config.sequences, self.seed))
        columns = {"set": ["test"] * len(lengths), "id": [*map(str, lengths)], "depth": [*lengths], "share": shares}
        records.write(self.run.answers, records.of_columns(columns))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return optimizer_tensors(self.optimizer, dict(self.model.named_parameters())), {}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        restore_optimizer(self.optimizer, dict(self.model.named_parameters()), tensors)


@torch.no_grad()
def share_right(task: Transduction, model: nn.Module, length: int, sequences: int, seed: int) -> float:
    """Return the share of the outputs of new sequences of a length that are right, without the zeros that fill an output up."""
    inputs, outputs, counted = task.batch(sequences, length, numpy_generator(seed, f"{task.title}, test", length))
    model.eval()
    return _right(model(inputs, len(outputs)), outputs, counted) / int(counted.sum())


def _right(logits: Tensor, outputs: Tensor, counted: Tensor) -> int:
    """Return the number of outputs that count and are the most probable symbol."""
    return int(((logits.argmax(-1) == outputs) & counted).sum())
