"""The training loop, plain torch, resumable at any step with identical results. Over several processes the results are those
of one, but for dropout, see `dgl_treestack.distributed`.

All randomness is a function of seed, epoch and step, so the state of a run is its weights, Adam's moments and the small
`Progress`. `state.py` saves them together, at every epoch, every `checkpoint_steps` steps and on a signal.
"""

import gc
import logging
import math
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from dgl_treestack import _torch, atomic
from dgl_treestack.data import records
from dgl_treestack.data.forest import Forest
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.expression import language
from dgl_treestack.generators import numpy_generator, torch_generator
from dgl_treestack.model.batch import Batch
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Interrupted, Watch, watch_signals
from dgl_treestack.runs import evaluation, pretrained
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run, build_model
from dgl_treestack.runs.weights import load_into, read_weights, write_weights
from dgl_treestack.training import build, state
from dgl_treestack.training.build import DataSets, Place
from dgl_treestack.training.engine import choose_engine
from dgl_treestack.training.share import Share
from dgl_treestack.training.state import Progress, SavedRun

OnEpoch = Callable[[dict[str, Any], Model], object]  # called with a row of metrics.jsonl and the model after that epoch
logger = logging.getLogger(__name__)
_SILENT = logging.Logger("other processes of a run", logging.CRITICAL + 1)


class Training:
    """Training of one run folder: `train` finishes it, or raises Interrupted.

    data: training and validation set in place of the configuration's files. columns, on_epoch: see `start`.
    world: the processes that train it together, of which the first alone reads and writes the run folder.
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
        columns: Place = "auto",
        on_epoch: OnEpoch | None = None,
        world: World = ALONE,
    ):
        self.on_epoch = on_epoch if world.is_first else None
        self.run, self.config, self.seed, self.started, self.world = run, config, seed, time.process_time(), world
        self.log = logging.LoggerAdapter(logger if world.is_first else _SILENT, {"run": run.folder.name})
        self.device, self.quiet = torch.device(device), quiet or not world.is_first
        build.check_files(config.data, data or {})
        saved: SavedRun = world.first(lambda: SavedRun.read(run))
        self.language = saved.language or language.find(config.data.language)
        on_disk = build.is_on_disk(config, columns, data or {})
        labelled = build.LabelledExamples(config, self.language, "train", data or {}, unique_ids=not on_disk)
        train_examples = labelled if on_disk else list(labelled)
        validation_examples = list(build.LabelledExamples(config, self.language, "validation", data or {}))
        start = pretrained.find(config.model.start) if config.model.start and not saved.checkpoint else None
        vocabulary = saved.vocabulary or build.vocabulary(config, self.language, train_examples, start)
        vector_of_word: Mapping[str, np.ndarray] = {}
        if config.model.vectors and not saved.checkpoint:  # a checkpoint has the table
            vocabulary, vector_of_word = build.read_vectors(config, self.language, vocabulary, validation_examples)
        self.model = build_model(config.model, vocabulary, self.language, config.signals)
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        self.notes: list[str] = []  # on the initial values, for the log
        if config.model.vectors:
            build.set_vectors(self.model, vector_of_word, freeze=config.model.freeze_vectors)
        if vector_of_word:
            counts = len(vector_of_word), len(vocabulary) - 1, config.model.vectors
            self.notes.append("{} of {} words of the vocabulary have a vector in {}".format(*counts))
        if start:
            self.notes.append(build.load_start(self.model, config, start))
        self.model.to(self.device)
        self.train_set = build.train_set(config, self.model, train_examples, on_disk=on_disk)
        self.validation_set: Dataset = self.model.prepare(validation_examples).with_targets()
        for kind, dataset in (("train", self.train_set), ("validation", self.validation_set)):
            if not len(dataset):
                raise ConfigurationError(f"'data.{kind}' of {config.name!r} has no labels for the tasks of the model.")
        self.targets = build.targets(config, self.model, self.train_set, world)
        self.optimizer = build.optimizer(config, self.model)
        if world.is_first:
            atomic.remove_leftovers(run.folder)
        choose = partial(choose_engine, config, self.model, self.train_set, saved.environment, self.device)
        self.engine = world.first(choose)
        if not world.is_first:
            self.engine = choose()  # with the kernels that the first process has compiled
        self.progress = Progress()
        if saved.checkpoint:
            self.progress = state.restore(run.last, saved.checkpoint, self.model, self.optimizer)
        self.earlier_times = saved.times
        if world.size > 1:
            weights = (parameter.detach().cpu().numpy().tobytes() for parameter in self.model.parameters())
            world.check_same("training equations or weights", *self.train_set.contents(), *weights)

    def train(self) -> None:
        """Train to the last epoch, evaluate the test sets with the best weights, write DONE."""
        config, progress = self.config, self.progress
        message = "%s: %d training, %d validation equations"
        self.log.info(message, self.run.folder.name, len(self.train_set), len(self.validation_set))
        for note in self.notes:
            self.log.info("%s", note)
        if self.world.is_first:
            atomic.write_json_lines(self.run.metrics, progress.rows)
        with watch_signals() as watch, ExitStack() as stack:
            gc.collect()
            gc.freeze()  # or the collector would repeatedly traverse a data set of millions of objects
            stack.callback(gc.unfreeze)
            while progress.epoch < config.schedule.epochs and not 0 < config.schedule.early_stopping <= progress.stale:
                self._run_epoch(watch)
                self._close_epoch()
                self._check(watch)
            self._finish(watch)
            self._check(watch)

    def _check(self, watch: Watch) -> None:
        """Raise Interrupted when any process has received a signal."""
        if stopped := self._agreed(watch, *self.world.sums(watch.number)):
            raise Interrupted(stopped)

    @staticmethod
    def _agreed(watch: Watch, signals: float) -> int:
        """Return the signal by which all processes stop, 0 for none. signals: the sum over them, which all have computed."""
        return (watch.number or signal.SIGTERM) if signals else 0

    def _run_epoch(self, watch: Watch) -> None:
        """Run the remaining steps of an epoch. After a signal, save the run and raise Interrupted."""
        config, progress, size = self.config, self.progress, self.config.batch_size
        order = self._order(numpy_generator(self.seed, "order", progress.epoch))
        title = f"{self.run.folder.name} epoch {progress.epoch + 1}/{config.schedule.epochs}"
        validated = f", validation {progress.rows[-1]['validation_accuracy']:.1f} %" if progress.rows else ""
        total, disable = math.ceil(len(order) / size), True if self.quiet else None
        chosen = [order[start : start + size] for start in range(progress.step * size, len(order), size)]
        shares = [Share.of(self.train_set, positions, self.world) for positions in chosen]
        self.model.train()
        bar_of_steps = tqdm(total=total, initial=progress.step, desc=title, leave=False, disable=disable)
        with bar_of_steps as bar, evaluation.subnormals_as_zero():
            batches = self.train_set.batches_of([share.positions for share in shares], self.device)
            for batch, positions, share in zip(batches, chosen, shares, strict=True):
                stopped = self._step(batch, positions, share, watch)
                bar.update()
                bar.set_postfix_str(f"loss {progress.loss_sum / progress.seen:.3f}{validated}", refresh=False)
                if stopped:
                    self.save()
                    raise Interrupted(stopped)
                if progress.step % config.checkpoint_steps == 0:
                    self.save()

    def _order(self, generator: np.random.Generator) -> np.ndarray:
        """The order of the training examples in an epoch."""
        if not self.config.data.pairs_together:
            return generator.permutation(len(self.train_set))
        groups = self.train_set.groups
        return generator.permutation(int(groups.max()) + 1)[groups].argsort(kind="stable")

    def _step(self, batch: Batch, positions: np.ndarray, share: Share, watch: Watch) -> int:
        """Run one step: forward, loss, backward, optimizer. Returns the signal that any process has received, 0 for none.

        batch: this process's share. positions: of the examples of the whole batch in the training set. Raises DivergenceError,
        before the parameters change, for a loss or a gradient that is not finite.
        """
        progress = self.progress
        rank = [self.world.rank] if self.world.size > 1 else []  # every process draws the dropout of its own share
        generator = torch_generator(self.seed, "dropout", progress.epoch, progress.step, *rank)
        forest = batch.trees  # an engine may replace it by a graph
        h = self.model.node_states(batch, self.engine, generator=generator)
        output = self.model.outputs(h, batch)
        losses = self.model.losses(output, batch)
        loss = losses.mean() * share.fraction
        if self.model.signals is not None and self.targets is not None and isinstance(forest, Forest):
            signal_generator = numpy_generator(self.seed, "signals", progress.epoch, progress.step)
            distinct = share.subtrees(self.train_set, positions)
            loss = loss + self.model.signals(h, forest, self.targets, signal_generator, distinct)
        self.optimizer.zero()
        loss.backward()
        is_counted = share.fraction > 0
        total, loss_sum, seen, right, stop_signals = self.world.sum_gradients(
            self.optimizer.parameters,
            float(loss.detach()),
            is_counted * float(losses.detach().sum()),
            is_counted * len(losses),
            is_counted * int(self.model.correct(output.detach(), batch).sum()),
            watch.number,
        )
        gradients = [parameter.grad for parameter in self.optimizer.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not (math.isfinite(total) and torch.isfinite(norm)):
            ids = [self.train_set.ids[i] for i in positions]
            self.log.error("the batch: %s", ", ".join(ids))
            shown = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more (in the log)" if len(ids) > 8 else "")
            raise self._divergence(
                f"The loss of {self.run.folder.name} is {total}, its gradient {norm.item()}, "
                f"in epoch {progress.epoch + 1}, step {progress.step + 1}. Batch: {shown}."
            )
        if 0 < self.config.optimizer.clip < norm:
            _torch.foreach_("mul_", gradients, self.config.optimizer.clip / norm)
        steps = math.ceil(len(self.train_set) / self.config.batch_size)
        self.optimizer.step(self.config.schedule.rate_factor(progress.epoch * steps + progress.step, steps))
        progress.step += 1
        progress.seen += int(seen)
        progress.loss_sum += loss_sum
        progress.right += int(right)
        return self._agreed(watch, stop_signals)

    def _divergence(self, fault: str) -> DivergenceError:
        """Return the error of a run that diverged, with the remedy."""
        checkpoint_hint = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return DivergenceError(f"{fault} Lower optimizer.learning_rate.{checkpoint_hint}")

    def save(self) -> None:
        """Write the checkpoint that the run is resumed from, and the CPU time so far."""
        if self.world.is_first:
            state.save(self.run.last, self.model, self.optimizer, self.progress)
        self._write_times()

    def _write_times(self) -> None:
        """Write the CPU time of all processes, with reading and evaluation, after those of earlier ones. Not in the metrics:
        there a resumed run would differ from one that was never stopped."""
        (seconds,) = self.world.sums(time.process_time() - self.started)
        row = {"epoch": self.progress.epoch, "cpu_seconds": round(seconds, 3)}
        if self.world.is_first:
            atomic.write_json_lines(self.run.times, [*self.earlier_times, row])

    def _close_epoch(self) -> None:
        """Validate, keep the best weights, adjust the learning rate, save, log."""
        progress, schedule, name = self.progress, self.config.schedule, self.run.folder.name
        validation = evaluation.score(self.model, self.validation_set, self.engine, self.world)
        if not math.isfinite(validation.loss):
            fault = f"The validation loss of {name} is {validation.loss} after epoch {progress.epoch + 1}."
            raise self._divergence(fault)
        progress.epoch += 1
        row = {
            "epoch": progress.epoch,
            "learning_rate": self.optimizer.learning_rate,
            "train_loss": progress.loss_sum / progress.seen,
            "train_accuracy": 100 * progress.right / progress.seen,
            "validation_loss": validation.loss,
            "validation_accuracy": validation.accuracy,
        }
        progress.rows.append(row)
        progress.step, progress.loss_sum, progress.right, progress.seen = 0, 0.0, 0, 0
        progress.stale += 1
        progress.plateau += 1
        by_loss = any(head.selects_by_loss for head in self.model.heads.values())
        quality = -validation.loss if by_loss else validation.accuracy
        if progress.best_epoch == 0 or quality > progress.best_accuracy:
            progress.best_accuracy, progress.best_epoch = quality, progress.epoch
            progress.stale = progress.plateau = 0
            description = {"epoch": progress.epoch, "validation_accuracy": validation.accuracy}
            if self.world.is_first:
                write_weights(self.run.best, self.model.state_dict(), description)
        if 0 < schedule.plateau <= progress.plateau:
            self.optimizer.learning_rate *= schedule.factor
            progress.plateau = 0
        self.save()
        if self.world.is_first:
            atomic.write_json_lines(self.run.metrics, progress.rows)
        message = "%s epoch %d: train loss %.4f, accuracy %.1f %%; validation %.1f %%"
        self.log.info(message, name, progress.epoch, row["train_loss"], row["train_accuracy"], validation.accuracy)
        if self.on_epoch:
            self.on_epoch(dict(row), self.model)

    def _finish(self, watch: Watch) -> None:
        """Evaluate validation and test sets with the best weights, then write DONE."""
        load_into(self.model, self.world.first(self._best_weights), self.run.best)
        for name in dict.fromkeys((*self.config.data.validation, *self.config.data.test)):
            self._check(watch)
            # without native code, so that records do not depend on a compiler
            table = evaluation.answers_on(self.model, name, self.config.engine, self.config.data.group_by, self.world)
            if self.world.is_first:
                self.run.write_records(name, table)
            self.log.info("%s on %s: accuracy %.1f %%", self.run.folder.name, name, records.accuracy(table))
        self._write_times()
        if self.world.is_first:
            atomic.write_text(self.run.done, f"best epoch {self.progress.best_epoch}\n")

    def _best_weights(self) -> dict[str, Tensor]:
        """Return the best weights from the run folder. Raises CheckpointError."""
        if not self.run.best.exists():
            if self.progress.epoch:
                raise CheckpointError(f"{self.run.best} is gone, and only it had the best weights. Train again.")
            write_weights(self.run.best, self.model.state_dict(), {"epoch": 0})  # a configuration without epochs
        return read_weights(self.run.best)[0]
