"""The objective of streams: restarts of a net that learn an algorithmic task, and are rounded afterwards."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dgl_treestack import atomic
from dgl_treestack._torch import torch_generator
from dgl_treestack.algorithmic import training
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import Phase, entropy
from dgl_treestack.data import records
from dgl_treestack.data.records import Table
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.processes import Watch
from dgl_treestack.runs.configuration import ScheduleConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.sequence_configuration import StreamConfig
from dgl_treestack.runs.weights import write_weights
from dgl_treestack.sequence import ActingCell, StackRNN
from dgl_treestack.training.objective import Counts, Objective, Progress, optimizer_tensors, restore_optimizer


class StreamObjective(Objective):
    """The next symbol in endless streams of a task's sequences. A step is a segment of the recipe's updates.

    The first epoch is training; the second, if there is one, is rounding, after which stacks that are not needed are removed.
    The weights of the last epoch are evaluated. After each epoch all restarts are tested; `trained.safetensors` has those
    before rounding.
    """

    model: Net
    may_diverge = True  # a restart, which is then never chosen

    def __init__(self, run: Run, config: StreamConfig, seed: int):
        if config.task not in tasks():
            raise ConfigurationError(unknown("task", config.task, tasks()))
        self.run, self.config, self.seed, self.task = run, config, seed, tasks()[config.task]
        self.recipes = [config.recipe, *([config.rounding] if config.rounding.updates else [])]
        self.schedule, self.learning_rate = ScheduleConfig(len(self.recipes)), config.recipe.rate
        self.checkpoint_steps = config.checkpoint_steps
        self.model = Net(config.cell(len(self.task.symbols)))
        self.model.reset_parameters(torch_generator(seed, "restarts"))
        self.notes = [f"{run.folder.name}: {config.restarts} restarts"]
        self.begin_epoch(0)

    def describe(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        return {"vocabulary.json": json.dumps({"words": list(self.task.symbols)}) + "\n"}, {}

    def begin_epoch(self, epoch: int) -> None:
        self.phase = Phase(self.task, self.model, self.recipes[epoch], self.seed)

    def steps(self, epoch: int) -> int:
        return self.phase.segments

    def batches(self, epoch: int, step: int) -> Iterable[int]:
        """Return the numbers of segments."""
        return range(step, self.phase.segments)

    def step(self, batch: int, progress: Progress, watch: Watch) -> Counts:
        loss_sum, seen = self.phase.train(batch)
        return Counts(loss_sum, max(seen, 1), stop=watch.number)  # a few tokens may all be without weight

    @torch.no_grad()
    def validate(self, progress: Progress) -> tuple[dict[str, float], float]:
        net, is_last = self.model, progress.epoch == len(self.recipes) - 1
        columns: dict[str, Any] = {"rounded": progress.epoch == 1}
        if progress.epoch == 1 and isinstance(net.cell, StackRNN):
            columns["stacks"] = training.prune(self.task, net, self.seed).tolist()
            entropies = entropy(self.task, net, self.seed)
            lines = training.trace(self.task, net, int(entropies.argmin()), self.seed)
            atomic.write_json_lines(self.run.trace, lines)
        if not is_last:
            write_weights(self.run.best.with_name("trained.safetensors"), net.state_dict(), {})
        table = self._test(columns)
        least_entropy = min(table["entropy"].to_list())
        if progress.epoch == 1:
            before = records.read(self.run.answers)  # with those after rounding, if the run was killed just then
            table = records.joined([before.filter(~before["rounded"]), table])
        records.write(self.run.answers, table)
        row = {
            "learning_rate": self.phase.recipe.rate,
            "train_loss": progress.loss_sum / progress.seen,
            "validation_entropy": least_entropy,
        }
        return row, float(progress.epoch + 1)

    def summary(self, row: Mapping[str, Any]) -> str:
        return f"train loss {row['train_loss']:.4f}, least entropy {row['validation_entropy']:.4f}"

    def _test(self, columns: Mapping[str, Any]) -> Table:
        """Return a row per restart, test and size: the share of sequences that are right.

        Tests are soft and, for nets with actions, hard; entropies are those of the same kind of actions. columns: further ones:
        `rounded`, and `stacks`, the number of remaining stacks by restart.
        """
        task, net, tests = self.task, self.model, self.config.tests
        near = range(max(task.smallest, 2), tests.largest + 1)
        planned: list[tuple[str, Sequence[int], int]] = []  # protocol, sizes, sequences per size
        for protocol in training.PROTOCOLS:
            planned.append((protocol, near, tests.streamed if protocol == "stream" else tests.repeats if task.varied else 1))
        planned += [("emptied", [far], tests.streamed if task.varied else 1) for far in tests.far]
        capacity = len(task.symbols) + 1  # rows per size: the symbols of a sequence, and those of a stream before it
        rows: list[dict[str, Any]] = []
        for hard in (False, True) if isinstance(net.cell, ActingCell) else (False,):
            with training.tested_as(net, hard=hard, capacity=capacity * tests.largest):
                entropies = entropy(task, net, self.seed).tolist()  # of these actions, by which restarts are chosen
            for protocol, sizes, repeats in planned:
                name = f"{protocol}, {'hard' if hard else 'soft'}"
                with training.tested_as(net, hard=hard, capacity=capacity * max(sizes)):
                    shares = training.share_correct(task, net, sizes, protocol, self.seed, repeats=repeats).tolist()
                for restart, (i, size) in itertools.product(range(len(shares)), enumerate(sizes)):
                    row = {"set": name, "id": f"{restart}-{size}", "depth": size, "restart": restart}
                    row |= {"share": shares[restart][i], "correct": shares[restart][i] == 1.0, "entropy": entropies[restart]}
                    row |= {key: value[restart] if isinstance(value, list) else value for key, value in columns.items()}
                    rows.append(row)
        return records.of_columns({key: [row[key] for row in rows] for key in rows[0]})

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        parameters = dict(self.model.named_parameters())
        tensors = {"shares": self.phase.shares, "least": self.phase.least}
        tensors |= {f"best/{name}": value for name, value in self.phase.best.items()}
        values = {
            "generator": self.phase.generator.bit_generator.state,
            "beta": self.model.cell.beta if isinstance(self.model.cell, ActingCell) else None,
        }
        return optimizer_tensors(self.phase.optimizer, parameters) | tensors, values

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.phase.shares, self.phase.least = tensors["shares"], tensors["least"]
        self.phase.best = {name: tensors[f"best/{name}"] for name in self.phase.best}
        self.phase.generator.bit_generator.state = values["generator"]
        if isinstance(self.model.cell, ActingCell):
            self.model.cell.beta = values["beta"]
        restore_optimizer(self.phase.optimizer, dict(self.model.named_parameters()), tensors)
