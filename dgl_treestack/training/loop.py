"""The training loop: plain torch, resumable at any step to the same numbers.

All randomness is a function of seed, epoch and step (`random.py`), so the state of a run is its weights, Adam's moments and the
small `Progress`. `checkpoint.py` saves them together, at every epoch, every `checkpoint_steps` steps and on a signal.
"""

import gc
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from dgl_treestack import atomic
from dgl_treestack.data import formats, records
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
Kind = Literal["train", "validation"]
DataSets = Mapping[Kind, TreeDataset]


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Exempt all objects that exist now from garbage collection, which would otherwise traverse a data set of millions of
    objects again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Training:
    """Training of one run folder: `train` runs it to its end, or raises Interrupted.

    like: a training of the same configuration, whose data sets are shared. data: training and validation set in place of the
    configuration's files.
    """

    def __init__(
        self,
        run: Run,
        config: RunConfig,
        seed: int,
        *,
        device: str = "cpu",
        quiet: bool = False,
        data: DataSets | None = None,
    ):
        self.run, self.config, self.seed = run, config, seed
        self.log = logging.LoggerAdapter(logger, {"run": run.folder.name})
        self.device, self.quiet = torch.device(device), quiet
        self.model = build_model(config.model)
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        self.model.to(self.device)
        self.train_set: Dataset = self._prepare("train", data or {})
        self.validation_set: Dataset = self._prepare("validation", data or {})
        self.adam = NamedAdam(self.model, config.optimizer)
        atomic.remove_leftovers(run.folder)
        recorded = run.environment if run.is_complete() else {}
        self.engine = choose_engine(config, self.model, self.train_set, recorded, self.device)
        self.progress = checkpoint.load(run.last, self.model, self.adam) if run.last.exists() else Progress()

    def _prepare(self, kind: Kind, data: DataSets) -> Dataset:
        """Prepare the labelled equations of the configured depths, out of `data` or the configuration's files."""
        config = self.config.data
        names, percent = (config.train, config.percent) if kind == "train" else (config.validation, 100.0)
        available = data[kind].examples if kind in data else formats.read_examples(names, percent)
        examples = [example for example in available if example.label is not None and example.equation.depth in config.depths]
        if not examples:
            raise ConfigurationError(f"'data.{kind}' of {self.config.name!r} has no labelled equations: {list(names)}.")
        return self.model.prepare(examples)

    def train(self) -> None:
        """Train to the last epoch, evaluate the test sets with the best weights, write DONE."""
        config, progress = self.config, self.progress
        message = "%s: %d training, %d validation equations"
        self.log.info(message, self.run.folder.name, len(self.train_set), len(self.validation_set))
        records.write(self.run.metrics, progress.rows)
        with watch_signals() as watch, frozen_heap():
            while progress.epoch < config.schedule.epochs and not 0 < config.schedule.early_stopping <= progress.stale:
                self._run_epoch(watch)
                self._close_epoch()
                watch.check()
            self._finish(watch)
            watch.check()

    def _run_epoch(self, watch: Watch) -> None:
        """Take the steps of an epoch that are left. Raises Interrupted after a signal, when the run is saved."""
        config, progress, size = self.config, self.progress, self.config.batch_size
        order = numpy_generator(self.seed, "order", progress.epoch).permutation(len(self.train_set))
        title = f"{self.run.folder.name} epoch {progress.epoch + 1}/{config.schedule.epochs}"
        validated = f", validation {progress.rows[-1]['validation_accuracy']:.1f} %" if progress.rows else ""
        total, disable = math.ceil(len(order) / size), True if self.quiet else None
        with tqdm(total=total, initial=progress.step, desc=title, leave=False, disable=disable) as bar:
            for batch in self.train_set.in_order(order[progress.step * size :], size, self.device):
                self.model.train()
                self._step(batch, order[progress.step * size : (progress.step + 1) * size])
                bar.update()
                bar.set_postfix_str(f"loss {progress.loss_sum / progress.seen:.3f}{validated}", refresh=False)
                if watch.number:
                    self.save()
                    watch.check()
                if progress.step % config.checkpoint_steps == 0:
                    self.save()

    def _step(self, batch: Batch, positions: np.ndarray) -> None:
        """Take one step: forward, loss, backward, optimizer. positions: of the batch's examples in the training set.

        Raises DivergenceError, before the parameters change, for a loss or a gradient that is not finite.
        """
        progress = self.progress
        generator = torch_generator(self.seed, "dropout", progress.epoch, progress.step)
        output = self.model(batch, self.engine, generator=generator)
        losses = self.model.losses(output, batch)
        loss = losses.mean()
        self.adam.zero()
        loss.backward()
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not (torch.isfinite(loss) and torch.isfinite(norm)):
            ids = [self.train_set.examples[i].id for i in positions]
            self.log.error("the batch: %s", ", ".join(ids))
            shown = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more (in the log)" if len(ids) > 8 else "")
            raise self._divergence(
                f"The loss of {self.run.folder.name} is {loss.item()}, its gradient {norm.item()}, "
                f"in epoch {progress.epoch + 1}, step {progress.step + 1}. Batch: {shown}."
            )
        self.adam.step()
        progress.step += 1
        progress.seen += len(losses)
        progress.loss_sum += float(losses.detach().sum())
        progress.right += int(self.model.correct(output.detach(), batch).sum())

    def _divergence(self, fault: str) -> DivergenceError:
        """Return the error of a run that diverged, with the remedy."""
        checkpoint_hint = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return DivergenceError(f"{fault} Lower optimizer.learning_rate.{checkpoint_hint}")

    def save(self) -> None:
        """Write the checkpoint that the run is resumed from."""
        checkpoint.save(self.run.last, self.model, self.adam, self.progress)

    def _close_epoch(self) -> None:
        """Validate, keep the best weights, adjust the learning rate, save, log."""
        progress, schedule, name = self.progress, self.config.schedule, self.run.folder.name
        validation = evaluation.score(self.model, self.validation_set, self.engine)
        if not math.isfinite(validation.loss):
            fault = f"The validation loss of {name} is {validation.loss} after epoch {progress.epoch + 1}."
            raise self._divergence(fault)
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
        progress.stale += 1
        progress.plateau += 1
        if validation.accuracy > progress.best_accuracy:
            progress.best_accuracy, progress.best_epoch = validation.accuracy, progress.epoch
            progress.stale = progress.plateau = 0
            description = {"epoch": progress.epoch, "validation_accuracy": validation.accuracy}
            weights.write(self.run.best, self.model.state_dict(), description)
        if 0 < schedule.plateau <= progress.plateau:
            self.adam.learning_rate *= schedule.factor
            progress.plateau = 0
        self.save()
        records.write(self.run.metrics, progress.rows)
        message = "%s epoch %d: train loss %.4f, accuracy %.1f %%; validation %.1f %%"
        self.log.info(message, name, progress.epoch, row["train_loss"], row["train_accuracy"], validation.accuracy)

    def _finish(self, watch: Watch) -> None:
        """Evaluate validation and test sets with the best weights, then write DONE."""
        if not self.run.best.exists():
            if self.progress.epoch:
                raise CheckpointError(f"{self.run.best} is gone, and only it had the best weights. Train anew.")
            weights.write(self.run.best, self.model.state_dict(), {"epoch": 0})  # the configuration asks for no epochs
        for name in dict.fromkeys((*self.config.data.validation, *self.config.data.test)):
            watch.check()
            rows = evaluation.evaluate(self.run, name, engine=self.config.engine)
            self.log.info("%s on %s: accuracy %.1f %%", self.run.folder.name, name, records.accuracy(rows))
        atomic.write_text(self.run.done, f"best epoch {self.progress.best_epoch}\n")
