"""The training loop, plain torch, resumable at any step with identical results, and the choice of a run's engine.

All randomness is a function of seed, epoch and step, so the state of a run is its weights, Adam's moments and the small
`Progress`. `state.py` saves them together, at every epoch, every `checkpoint_steps` steps and on a signal.
"""

import gc
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from tqdm.auto import tqdm

from dgl_treestack import atomic
from dgl_treestack.data import formats, records
from dgl_treestack.data.forest import Forest
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.encoders import Encoder
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.expression import language
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.processes import Watch, watch_signals
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run, build_model, write_weights
from dgl_treestack.training import state
from dgl_treestack.training.state import NamedAdam, Progress, numpy_generator, torch_generator

if TYPE_CHECKING:
    from dgl_treestack.truth.subtrees import Targets

logger = logging.getLogger(__name__)
LONG = 10_000  # minimum steps for which compiling pays: it takes up to two minutes, once, and is cached on disk
Kind = Literal["train", "validation"]
DataSets = Mapping[Kind, TreeDataset]


class Training:
    """Training of one run folder: `train` finishes it, or raises Interrupted.

    data: training and validation set in place of the configuration's files.
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
        self.run, self.config, self.seed, self.started = run, config, seed, time.process_time()
        self.log = logging.LoggerAdapter(logger, {"run": run.folder.name})
        self.device, self.quiet = torch.device(device), quiet
        self.language = run.language if run.has_description() else language.find(config.data.language)
        train_examples, validation_examples = (self._examples(kind, data or {}) for kind in ("train", "validation"))
        vocabulary = run.vocabulary if run.has_description() else _vocabulary(config, self.language, train_examples)
        vector_of_word: Mapping[str, np.ndarray] = {}
        if config.model.vectors and not run.last.exists():  # a checkpoint has the table
            from dgl_treestack.training import words

            vocabulary, vector_of_word = words.read_vectors(config, self.language, vocabulary, validation_examples)
        self.words_with_vector = len(vector_of_word)
        self.model = build_model(config.model, vocabulary, self.language, config.signals)
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        if config.model.vectors:
            from dgl_treestack.training import words

            words.set_vectors(self.model, vector_of_word, freeze=config.model.freeze_vectors)
        self.model.to(self.device)
        self.train_set: Dataset = self.model.prepare(train_examples).with_targets()
        self.validation_set: Dataset = self.model.prepare(validation_examples).with_targets()
        for kind, dataset in (("train", self.train_set), ("validation", self.validation_set)):
            if not len(dataset):
                raise ConfigurationError(f"'data.{kind}' of {config.name!r} has no labels for the tasks of the model.")
        self.targets: Targets | None = None
        if self.model.signals is not None:
            from dgl_treestack.truth.subtrees import targets_of

            self.targets = targets_of(self.train_set.forest, config.signals.points)
        # decay would move the vector of a word to zero as fast as the learning rate allows, while no batch has the word
        undecayed = ["cell.leaves.table"] if config.model.vectors else []
        optimizer_class = NamedAdam
        if config.optimizer.method == "muon":
            from dgl_treestack.training.muon import NamedMuon

            optimizer_class = NamedMuon
        self.optimizer = optimizer_class(self.model, config.optimizer, undecayed)
        atomic.remove_leftovers(run.folder)
        recorded = run.environment if run.has_description() else {}
        self.engine = choose_engine(config, self.model, self.train_set, recorded, self.device)
        self.progress = state.load(run.last, self.model, self.optimizer) if run.last.exists() else Progress()
        self.earlier_times = run.read_times()

    def _examples(self, kind: Kind, data: DataSets) -> list[Example]:
        """The labelled examples of the configured depths, from `data` or the configuration's files."""
        config = self.config.data
        names, percent = (config.train, config.percent) if kind == "train" else (config.validation, 100.0)
        available = data[kind].examples if kind in data else formats.read_examples(names, percent, self.language)
        examples = [
            example
            for example in available
            if any(label is not None for label in (example.label, *example.labels)) and example.equation.depth in config.depths
        ]
        if not examples:
            raise ConfigurationError(f"'data.{kind}' of {self.config.name!r} has no labelled examples: {list(names)}.")
        return examples

    def train(self) -> None:
        """Train to the last epoch, evaluate the test sets with the best weights, write DONE."""
        config, progress = self.config, self.progress
        message = "%s: %d training, %d validation equations"
        self.log.info(message, self.run.folder.name, len(self.train_set), len(self.validation_set))
        if self.words_with_vector:
            counts = self.words_with_vector, len(self.model.vocabulary) - 1
            self.log.info("%d of %d words of the vocabulary have a vector in %s", *counts, config.model.vectors)
        atomic.write_json_lines(self.run.metrics, progress.rows)
        with watch_signals() as watch, ExitStack() as stack:
            gc.collect()
            gc.freeze()  # or the collector would repeatedly traverse a data set of millions of objects
            stack.callback(gc.unfreeze)
            while progress.epoch < config.schedule.epochs and not 0 < config.schedule.early_stopping <= progress.stale:
                self._run_epoch(watch)
                self._close_epoch()
                watch.check()
            self._finish(watch)
            watch.check()

    def _run_epoch(self, watch: Watch) -> None:
        """Run the remaining steps of an epoch. After a signal, save the run and raise Interrupted."""
        config, progress, size = self.config, self.progress, self.config.batch_size
        order = self._order(numpy_generator(self.seed, "order", progress.epoch))
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

    def _order(self, generator: np.random.Generator) -> np.ndarray:
        """The order of the training examples in an epoch."""
        if not self.config.data.pairs_together:
            return generator.permutation(len(self.train_set))
        group_of_pair: dict[str, int] = {}
        examples = enumerate(self.train_set.examples)
        groups = [group_of_pair.setdefault(example.pair or f"/{i}", len(group_of_pair)) for i, example in examples]
        return generator.permutation(len(group_of_pair))[groups].argsort(kind="stable")

    def _step(self, batch: Batch, positions: np.ndarray) -> None:
        """Run one step: forward, loss, backward, optimizer. positions: of the batch's examples in the training set.

        Raises DivergenceError, before the parameters change, for a loss or a gradient that is not finite.
        """
        progress = self.progress
        generator = torch_generator(self.seed, "dropout", progress.epoch, progress.step)
        forest = batch.trees  # an engine may replace it by a graph
        h = self.model.node_states(batch, self.engine, generator=generator)
        output = self.model.outputs(h, batch)
        losses = self.model.losses(output, batch)
        loss = losses.mean()
        if self.model.signals is not None and self.targets is not None and isinstance(forest, Forest):
            source = numpy_generator(self.seed, "signals", progress.epoch, progress.step)
            loss = loss + self.model.signals(h, forest, self.targets, source)
        self.optimizer.zero()
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
        if 0 < self.config.optimizer.clip < norm:
            torch._foreach_mul_(gradients, self.config.optimizer.clip / norm)
        steps = math.ceil(len(self.train_set) / self.config.batch_size)
        self.optimizer.step(self.config.schedule.rate_factor(progress.epoch * steps + progress.step, steps))
        progress.step += 1
        progress.seen += len(losses)
        progress.loss_sum += float(losses.detach().sum())
        progress.right += int(self.model.correct(output.detach(), batch).sum())

    def _divergence(self, fault: str) -> DivergenceError:
        """Return the error of a run that diverged, with the remedy."""
        checkpoint_hint = f" The last checkpoint is {self.run.last}." if self.run.last.exists() else ""
        return DivergenceError(f"{fault} Lower optimizer.learning_rate.{checkpoint_hint}")

    def save(self) -> None:
        """Write the checkpoint that the run is resumed from, and the CPU time so far."""
        state.save(self.run.last, self.model, self.optimizer, self.progress)
        self._write_times()

    def _write_times(self) -> None:
        """Write the CPU time of this process, with reading and evaluation, after those of earlier ones. Not in the metrics:
        there a resumed run would differ from one that was never stopped."""
        seconds = round(time.process_time() - self.started, 3)
        atomic.write_json_lines(self.run.times, [*self.earlier_times, {"epoch": self.progress.epoch, "cpu_seconds": seconds}])

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
            write_weights(self.run.best, self.model.state_dict(), description)
        if 0 < schedule.plateau <= progress.plateau:
            self.optimizer.learning_rate *= schedule.factor
            progress.plateau = 0
        self.save()
        atomic.write_json_lines(self.run.metrics, progress.rows)
        message = "%s epoch %d: train loss %.4f, accuracy %.1f %%; validation %.1f %%"
        self.log.info(message, name, progress.epoch, row["train_loss"], row["train_accuracy"], validation.accuracy)

    def _finish(self, watch: Watch) -> None:
        """Evaluate validation and test sets with the best weights, then write DONE."""
        if not self.run.best.exists():
            if self.progress.epoch:
                raise CheckpointError(f"{self.run.best} is gone, and only it had the best weights. Train again.")
            write_weights(self.run.best, self.model.state_dict(), {"epoch": 0})  # a configuration without epochs
        for name in dict.fromkeys((*self.config.data.validation, *self.config.data.test)):
            watch.check()
            rows = evaluation.evaluate(self.run, name, engine=self.config.engine)
            self.log.info("%s on %s: accuracy %.1f %%", self.run.folder.name, name, records.accuracy(rows))
        self._write_times()
        atomic.write_text(self.run.done, f"best epoch {self.progress.best_epoch}\n")


def _vocabulary(config: RunConfig, signature: Signature, examples: Sequence[Example]) -> Vocabulary:
    """The vocabulary of a new run: a preset, or one of words. Raises ConfigurationError, DataError."""
    name = config.model.vocabulary
    if signature.words:
        from dgl_treestack.training import words

        return words.build_vocabulary(config, signature, examples)
    if name == "train" or name.endswith(".txt"):
        raise ConfigurationError(
            f"'model.vocabulary' is {name!r}, but in the language {signature.name!r} leaves are numbers and variables. "
            "Set a preset, such as 'canonical'."
        )
    return Vocabulary.preset(name)


def choose_engine(
    config: RunConfig, model: Model, train_set: Dataset, recorded: Mapping[str, Any], device: torch.device
) -> str:
    """Return the engine of a run: the one in its environment, else the one that `compile` asks for.

    recorded: the run's environment, empty for a new run. Raises ConfigurationError if `compile` is on and there is no compiler,
    or native code gives other gradients.
    """
    if "kernels" in recorded:
        return "levels/compiled" if recorded["kernels"] == "compiled" else config.engine
    if isinstance(model.cell, Encoder):
        return config.engine
    steps = config.schedule.epochs * math.ceil(len(train_set) / config.batch_size)
    if config.engine == "topo" or config.compile == "off" or (config.compile == "auto" and steps < LONG):
        return config.engine
    if reason := unavailable():
        if config.compile == "on":
            raise ConfigurationError(
                f"compile = 'on' needs a C++ compiler and Python.h: {reason}. Install g++ and Python's headers, or set 'off'."
            )
        logger.info("no native code: %s; the run uses the engine %s", reason, config.engine)
        return config.engine
    fault = _fault_of_native_code(model, train_set, config.batch_size, device)
    if not fault:
        return "levels/compiled"
    if config.compile == "on":
        raise ConfigurationError(f"{type(model.cell).__name__} cannot be compiled ({fault}). Set compile = 'off'.")
    logger.warning("%s cannot be compiled (%s); the run uses the engine levels.", type(model.cell).__name__, fault)
    return config.engine


def _fault_of_native_code(model: Model, train_set: Dataset, size: int, device: torch.device) -> str:
    """Return why native code cannot replace the engine `levels`, as text; empty if it can.

    Compares losses and gradients of both engines on the first batch and on a single equation.
    """
    logger.info("compiling kernels for %s", type(model.cell).__name__)
    try:
        for count in (size, 1):
            batch = train_set.batch(np.arange(min(count, len(train_set))), device)
            results = []
            for engine in ("levels", "levels/compiled"):
                model.zero_grad(set_to_none=True)
                output = model(batch, engine, generator=torch.Generator().manual_seed(0))
                loss = model.losses(output, batch).mean()
                loss.backward()
                gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
                results.append([loss.detach(), *gradients])
            if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*results, strict=True)):
                return "native code gives other gradients"
    except Exception as error:  # a user's cell may do anything that the tracer cannot follow
        return str(error) or type(error).__name__
    finally:
        model.zero_grad(set_to_none=True)
    return ""
