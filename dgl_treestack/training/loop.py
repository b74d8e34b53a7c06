"""The training loop: plain torch, resumable at any step to the same numbers.

All randomness is a function of seed, epoch and step (`random.py`), so the state of a run is its weights, Adam's moments and the
small `Progress`. `checkpoint.py` saves them together, at every epoch, every `checkpoint_steps` steps and on a signal.
"""

import gc
import logging
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from dgl_treestack import atomic
from dgl_treestack.data import records
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.runs import evaluation, weights
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run, build_model
from dgl_treestack.training import checkpoint
from dgl_treestack.training.checkpoint import Progress
from dgl_treestack.training.engine import choose_engine
from dgl_treestack.training.interruption import Watch, watch_signals
from dgl_treestack.training.optimizer import NamedAdam
from dgl_treestack.training.random import numpy_generator, torch_generator

logger = logging.getLogger(__name__)
Given = Mapping[Literal["train", "validation"], TreeDataset]


@contextmanager
def data_left_alone() -> Iterator[None]:
    """Without the collector of garbage going through a data set of millions of objects again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Training:
    """Training of one run folder. `train` runs it to its end or raises Interrupted.

    like: a training of the same configuration, whose data it then shares. data: training and validation set, in place of the
    files of the configuration.
    """

    def __init__(
        self,
        run: Run,
        config: RunConfig,
        seed: int,
        *,
        device: str = "cpu",
        quiet: bool = False,
        like: "Training | None" = None,
        data: Given | None = None,
    ):
        self.run, self.config, self.seed = run, config, seed
        self.log = logging.LoggerAdapter(logger, {"run": run.folder.name})
        self.device, self.quiet = torch.device(device), quiet
        self.model = build_model(config.model)
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        self.model.to(self.device)
        self.data = data or {}
        self.train_set: Dataset = like.train_set if like else self._read("train", config.data.train, config.data.percent)
        self.validation_set: Dataset = like.validation_set if like else self._read("validation", config.data.validation)
        self.adam = NamedAdam(self.model, config.optimizer)
        atomic.remove_leftovers(run.folder)
        recorded = run.environment if run.is_complete() else {}
        self.engine = choose_engine(config, self.model, self.train_set, recorded, self.device)
        self.progress = checkpoint.load(run.last, self.model, self.adam) if run.last.exists() else Progress()
        self.chosen: np.ndarray = np.empty(0, dtype=np.int64)  # examples of the step that is being taken

    def _read(self, kind: Literal["train", "validation"], names: tuple[str, ...], percent: float = 100.0) -> Dataset:
        depths = self.config.data.depths
        dataset = self.data.get(kind)
        available = evaluation.read_share(names, percent) if dataset is None else dataset.examples
        examples = [example for example in available if example.label is not None and example.equation.depth in depths]
        if not examples:
            raise ConfigurationError(f"'data.{kind}' of {self.config.name!r} has no labelled equations: {list(names)}.")
        return self.model.prepare(examples)

    # The loop

    def train(self) -> None:
        """Train to the last epoch, evaluate the test sets with the best weights, write DONE."""
        with watch_signals() as watch, data_left_alone():
            for batch, generator in self.course(watch):
                self._step(batch, generator)

    def course(self, watch: Watch) -> Generator[tuple[Batch, torch.Generator]]:
        """All that `train` does but the steps: of each it yields the batch and what draws dropout, and before it goes on, the
        gradients have to be there and `learn` to be called."""
        self.log.info(
            "%s: %d training, %d validation equations", self.run.folder.name, len(self.train_set), len(self.validation_set)
        )
        self.run.write_metrics(self.progress.rows)
        while not self._finished():
            yield from self._epoch(watch)
            self._close_epoch()
            watch.check()
        self._finish(watch)
        watch.check()

    def _finished(self) -> bool:
        schedule, progress = self.config.schedule, self.progress
        stopped = 0 < schedule.early_stopping <= progress.stale
        return progress.epoch >= schedule.epochs or stopped

    def _epoch(self, watch: Watch) -> Iterator[tuple[Batch, torch.Generator]]:
        progress, size = self.progress, self.config.batch_size
        order = numpy_generator(self.seed, "order", progress.epoch).permutation(len(self.train_set))
        steps = math.ceil(len(order) / size)
        bar = tqdm(total=steps, initial=progress.step, desc=self._title(), leave=False, disable=True if self.quiet else None)
        with bar:
            for batch in self.train_set.in_order(order[progress.step * size :], size, self.device):
                self.chosen = order[progress.step * size : (progress.step + 1) * size]
                self.model.train()
                yield batch, torch_generator(self.seed, "dropout", progress.epoch, progress.step)
                bar.update()
                bar.set_postfix_str(f"loss {progress.loss_sum / progress.seen:.3f}{self._validation_so_far()}", refresh=False)
                if watch.number:
                    self.save()
                    watch.check()
                if progress.step % self.config.checkpoint_steps == 0:
                    self.save()

    def _step(self, batch: Batch, generator: torch.Generator) -> None:
        """Apart, so that nothing of it, a graph of all states, is held through the next."""
        output = self.model(batch, self.engine, generator=generator)
        losses = self.model.losses(output, batch)
        self.adam.zero()
        losses.mean().backward()
        self.learn(output, losses, batch)

    def learn(self, output: Tensor, losses: Tensor, batch: Batch) -> None:
        """Take the optimizer's step with the gradients of a batch that are there, from its outputs and losses (B,)."""
        progress = self.progress
        self._check_finite(losses.mean())
        self.adam.step()
        progress.step += 1
        progress.seen += len(losses)
        progress.loss_sum += float(losses.detach().sum())
        progress.right += int(self.model.correct(output.detach(), batch).sum())

    def _check_finite(self, loss: Tensor) -> None:
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if torch.isfinite(loss) and torch.isfinite(norm):
            return
        ids = [self.train_set.examples[i].id for i in self.chosen]
        self.log.error("the batch: %s", ", ".join(ids))
        shown = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more (in the log)" if len(ids) > 8 else "")
        place = f"epoch {self.progress.epoch + 1}, step {self.progress.step + 1}"
        raise DivergenceError(
            f"The loss of {self.run.folder.name} is {loss.item()}, its gradient {norm.item()}, in {place}. Batch: {shown}. "
            f"{self._remedy()}"
        )

    def _remedy(self) -> str:
        last = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return f"Lower optimizer.learning_rate.{last}"

    def save(self) -> None:
        """Write the checkpoint from which it is resumed."""
        checkpoint.save(self.run.last, self.model, self.adam, self.progress)

    def _close_epoch(self) -> None:
        """Validate, move the schedule on, save."""
        progress, schedule = self.progress, self.config.schedule
        validation = evaluation.score(self.model, self.validation_set, self.engine)
        if not math.isfinite(validation.loss):
            name, epoch = self.run.folder.name, progress.epoch + 1
            raise DivergenceError(f"The validation loss of {name} is {validation.loss} after epoch {epoch}. {self._remedy()}")
        progress.epoch += 1
        row = {
            "epoch": progress.epoch,
            "learning_rate": self.adam.learning_rate,
            "train_loss": progress.loss_sum / progress.seen,
            "train_accuracy": 100 * progress.right / progress.seen,
            "validation_loss": validation.loss,
            "validation_accuracy": validation.accuracy,
        }
        progress.rows.append(row)
        progress.step, progress.loss_sum, progress.right, progress.seen = 0, 0.0, 0, 0
        self._keep_best(validation.accuracy)
        if 0 < schedule.plateau <= progress.plateau:
            self.adam.learning_rate *= schedule.factor
            progress.plateau = 0
        self.save()
        self.run.write_metrics(progress.rows)
        self.log.info(
            "%s epoch %d: train loss %.4f, accuracy %.1f %%; validation %.1f %%",
            self.run.folder.name,
            progress.epoch,
            row["train_loss"],
            row["train_accuracy"],
            validation.accuracy,
        )

    def _keep_best(self, accuracy: float) -> None:
        progress = self.progress
        progress.stale += 1
        progress.plateau += 1
        if accuracy > progress.best_accuracy:
            progress.best_accuracy, progress.best_epoch, progress.stale, progress.plateau = accuracy, progress.epoch, 0, 0
            description = {"epoch": progress.epoch, "validation_accuracy": accuracy}
            weights.write(self.run.best, self.model.state_dict(), description)

    def _finish(self, watch: Watch) -> None:
        if not self.run.best.exists():
            if self.progress.epoch:
                raise CheckpointError(f"{self.run.best} is gone, and only it had the best weights. Train anew.")
            weights.write(self.run.best, self.model.state_dict(), {"epoch": 0})  # no epochs asked for
        for name in dict.fromkeys((*self.config.data.validation, *self.config.data.test)):
            watch.check()
            rows = evaluation.evaluate(self.run, name, engine=self.config.engine)
            self.log.info("%s on %s: accuracy %.1f %%", self.run.folder.name, name, records.accuracy(rows))
        atomic.write_text(self.run.done, f"best epoch {self.progress.best_epoch}\n")

    # What a person sees

    def _title(self) -> str:
        return f"{self.run.folder.name} epoch {self.progress.epoch + 1}/{self.config.schedule.epochs}"

    def _validation_so_far(self) -> str:
        rows = self.progress.rows
        return f", validation {rows[-1]['validation_accuracy']:.1f} %" if rows else ""
