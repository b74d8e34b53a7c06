"""The objective of trees: the tasks of a model on labelled trees, and losses at their nodes."""

import itertools
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _torch, atomic
from dgl_treestack._torch import numpy_generator, torch_generator
from dgl_treestack.cells import leaf_encoder
from dgl_treestack.data import records
from dgl_treestack.data.forest import Forest
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import ConfigurationError, DivergenceError
from dgl_treestack.expression import language
from dgl_treestack.model import recorded
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.model.recorded import Prepared, RecordedResults
from dgl_treestack.model.signals import Distinct
from dgl_treestack.model.stored_set import prepare_on_disk
from dgl_treestack.processes import Watch
from dgl_treestack.propagate import draw_key
from dgl_treestack.propagate.levels.static import builder
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.runs import evaluation, pretrained
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run, build_model
from dgl_treestack.training import build
from dgl_treestack.training.build import DataSets, Place
from dgl_treestack.training.engine import choose_engine
from dgl_treestack.training.objective import Counts, Objective, Progress
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.recorded import UNREAD, RecordedStep
from dgl_treestack.truth.subtrees import targets_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Share:
    """The share of a batch; alone, a process computes all of it.

    positions: of its examples in the training set. fraction: of the batch's outputs; 0 if there are more processes than trees,
    where one tree is computed and not counted. rank_of_tree: (G,) who computes each tree of the batch, None for one process.
    """

    positions: np.ndarray
    fraction: float
    rank: int = 0
    rank_of_tree: np.ndarray | None = None

    @classmethod
    def of(cls, dataset: Dataset, positions: np.ndarray, world: World) -> "Share":
        """Return this process's share of a batch. positions: (G,) of the batch's examples in the training set."""
        if world.size == 1:
            return cls(positions, 1.0)
        ranks = world.shares(dataset.forest.sizes[positions])
        outputs, is_mine = dataset.offsets[positions + 1] - dataset.offsets[positions], ranks == world.rank
        if not is_mine.any():
            return cls(positions[:1], 0.0, world.rank, ranks)
        return cls(positions[is_mine], float(outputs[is_mine].sum() / outputs.sum()), world.rank, ranks)

    def subtrees(self, dataset: Dataset, positions: np.ndarray) -> Distinct | None:
        """Return the distinct subtrees of the batch, each computed with the first tree that has it; None for one process."""
        if self.rank_of_tree is None:
            return None
        trees = dataset.forest.select(positions)
        subtree, node = np.unique(trees.subtree, return_index=True)
        tree_of_node = np.repeat(np.arange(len(trees)), trees.sizes)
        return Distinct(subtree, trees.height[node], self.rank_of_tree[tree_of_node[node]] == self.rank)


class TreeObjective(Objective):
    """The mean loss of a batch of labelled trees, and losses at their nodes if the configuration has weights for them.

    recorded: the run's environment, empty for a new run. goes_on: whether a checkpoint will be restored. data: training and
    validation set in place of the configuration's files. columns: see `start`. world: the processes that share out every batch.
    """

    model: Model

    def __init__(
        self,
        run: Run,
        config: RunConfig,
        seed: int,
        recorded: Mapping[str, Any],
        *,
        goes_on: bool = False,
        device: str = "cpu",
        data: DataSets | None = None,
        columns: Place = "auto",
        world: World = ALONE,
    ):
        self.run, self.config, self.seed, self.world, self.device = run, config, seed, world, torch.device(device)
        self.schedule, self.checkpoint_steps = config.schedule, config.checkpoint_steps
        self.learning_rate = config.optimizer.learning_rate
        if world.size > 1 and config.signals.equivalence:
            raise ConfigurationError(
                "'signals.equivalence' compares all subexpressions of a batch, which several processes share out. Train in one "
                "process, or set it to 0."
            )
        build.check_files(config.data, data or {})
        described = world.first(lambda: (run.language, run.vocabulary) if run.has_description() else (None, None))
        self.language = described[0] or language.find(config.data.language)
        on_disk = build.is_on_disk(config, columns, data or {})
        labelled = build.LabelledExamples(config, self.language, "train", data or {}, unique_ids=not on_disk)
        train_examples = labelled if on_disk else list(labelled)
        validation_examples = list(build.LabelledExamples(config, self.language, "validation", data or {}))
        start = pretrained.find(config.model.start) if config.model.start and not goes_on else None
        vocabulary = described[1] or build.vocabulary(config, self.language, train_examples, start)
        vector_of_word: Mapping[str, np.ndarray] = {}
        if config.model.vectors and not goes_on:  # a checkpoint has the table
            vocabulary, vector_of_word = build.read_vectors(config, self.language, vocabulary, validation_examples)
        self.model = build_model(config.model, vocabulary, self.language, config.signals)
        self.model.reset_parameters(torch_generator(seed, "initial values"))
        notes: list[str] = []
        if config.model.vectors:
            table = leaf_encoder(self.model.tree_cell).table
            table.requires_grad_(not config.model.freeze_vectors)
            for word, vector in vector_of_word.items():
                table.data[vocabulary.row("Word", word)] = torch.from_numpy(vector)
        if vector_of_word:
            counts = len(vector_of_word), len(vocabulary) - 1, config.model.vectors
            notes.append("{} of {} words of the vocabulary have a vector in {}".format(*counts))
        if start:
            notes.append(build.load_start(self.model, config, start))
        self.model.to(self.device)
        if on_disk:
            selection = [config.data.min_depth, config.data.max_depth, config.data.percent]
            settings: dict[str, Any] = {"selection": selection, "group_by": config.data.group_by}
            self.train_set: Dataset = prepare_on_disk(self.model, config.data.train, train_examples, **settings)
        else:
            self.train_set = self.model.prepare(list(train_examples)).with_targets()
        self.validation_set: Dataset = self.model.prepare(validation_examples).with_targets()
        for kind, dataset in (("train", self.train_set), ("validation", self.validation_set)):
            if not len(dataset):
                raise ConfigurationError(f"'data.{kind}' of {config.name!r} has no labels for the tasks of the model.")
        sizes = f"{len(self.train_set)} training, {len(self.validation_set)} validation equations"
        self.notes = [f"{run.folder.name}: {sizes}", *notes]
        self.targets = targets_of(self.train_set.forest, config.signals.points) if self.model.signals else None
        # Adam divides a decay by itself: the vector of a word that no batch has would fall to zero at the full learning rate,
        # from 0.5 to 0.19 in 400 steps at 1e-3.
        undecayed = ["cell.leaves.table"] if config.model.vectors else []
        self.optimizer = RowOptimizer(self.model, config.optimizer, undecayed)
        if world.is_first:
            atomic.remove_leftovers(run.folder)
        choose = partial(choose_engine, config, self.model, self.train_set, recorded, self.device)
        self.engine = world.first(choose)
        if not world.is_first:
            self.engine = choose()  # with the kernels that the first process has compiled
        self.undecayed = undecayed
        self.unread: list[np.ndarray] = []  # positions of the batches of recorded steps whose counts are not read yet

    def describe(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        data, model = self.config.data, self.config.model
        described = [name for name in (data.language, model.vocabulary) if name.endswith((".toml", ".txt"))]
        described += [model.vectors] if model.vectors else []
        described += [str(pretrained.find(model.start).best)] if model.start else []
        environment: dict[str, Any] = {
            "kernels": "compiled" if self.engine == "levels/compiled" else "none",
            "data": {name: sha256(find_data(name)) for name in dict.fromkeys((*described, *data.files))},
            "equations": {"train": len(self.train_set), "validation": len(self.validation_set)},
        }
        if data.group_by != "depth" or not data.max_depth or self.train_set.nodes.any():
            environment["measured"] = self.train_set.measured(data.group_by)
        if self.world.size > 1:
            environment |= {"processes": self.world.size, "torchrun": os.environ.get("TORCHELASTIC_RUN_ID")}
        return Run.description(self.model.vocabulary, self.model.signature), environment

    def steps(self, epoch: int) -> int:
        return math.ceil(len(self.train_set) / self.config.batch_size)

    def batches(self, epoch: int, step: int) -> Iterator[tuple[Batch | Prepared, np.ndarray, Share]]:
        """Yield this process's share of every batch, the positions of the whole batch in the training set, and the share.

        A batch that fits the recorded step is prepared for it.
        """
        chosen = self._chosen(epoch)[step:]
        if self.recorded is None:
            shares = [Share.of(self.train_set, positions, self.world) for positions in chosen]
            batches = self.train_set.batches_of([share.positions for share in shares], self.device)
            yield from zip(batches, chosen, shares, strict=True)
            return
        draws = (
            (draw_key(torch_generator(self.seed, "dropout", epoch, i)), numpy_generator(self.seed, "signals", epoch, i))
            for i in itertools.count(step)
        )
        for positions, prepared in zip(chosen, self.recorded.prepare(chosen, draws), strict=True):
            yield prepared or self.train_set.batch(positions, self.device), positions, Share(positions, 1.0)

    def _chosen(self, epoch: int) -> list[np.ndarray]:
        """The positions of the examples of every batch of an epoch."""
        generator, size = numpy_generator(self.seed, "order", epoch), self.config.batch_size
        if self.config.data.pairs_together:
            groups = self.train_set.groups
            order = generator.permutation(int(groups.max()) + 1)[groups].argsort(kind="stable")
        else:
            order = generator.permutation(len(self.train_set))
        return [order[start : start + size] for start in range(0, len(order), size)]

    @cached_property
    def recorded(self) -> RecordedStep | None:
        """The recorded step, made before the first step of this process; None where steps are not recorded."""
        config, samples, fault = self.config, self._chosen(0)[: recorded.SAMPLES], ""
        if config.optimizer.method not in ("adam", "muon"):
            fault = f"The optimizer is {config.optimizer.method}."
        elif config.engine == "topo" or self.world.size > 1:
            fault = "The engine is topo." if config.engine == "topo" else "Several processes share a batch."
        arguments = self.model.train(), self.optimizer, config.optimizer, self.train_set, samples, self.loss, self.undecayed
        build = None if config.compile == "off" else builder(self.device)
        make = partial(RecordedStep, *arguments, targets=self.targets, build=build)
        return recorded.attempt(self.device, f"{self.run.folder.name}: training", make, fault)

    def loss(self, losses: Tensor, positions: Tensor) -> Tensor:
        """Return the loss of a batch: the mean over its outputs. A subclass may weight examples.

        losses: (R,) of the outputs. positions: (R,) of their examples in the training set, on the same device. In a recorded
        step some are padding, with losses of 0, and the result is divided by the share of the others.
        """
        return losses.mean()

    def step(self, batch: tuple[Batch | Prepared, np.ndarray, Share], progress: Progress, watch: Watch) -> Counts:
        share_of_batch, positions, share = batch
        steps = self.steps(progress.epoch)
        rate = progress.learning_rate * self.schedule.rate_factor(progress.epoch * steps + progress.step, steps)
        if self.recorded is not None and isinstance(share_of_batch, Prepared):
            self.recorded(share_of_batch, rate)
            self.unread.append(positions)
            # The CPU waits for the counts: of every step, it would not run ahead of the GPU.
            return replace(self.settle() if len(self.unread) == UNREAD else Counts(0.0, 0), stop=watch.number)
        assert isinstance(share_of_batch, Batch)
        rank = [self.world.rank] if self.world.size > 1 else []  # every process draws the dropout of its own share
        # A function of the place in the run, so that a checkpoint has no state of a generator.
        generator = torch_generator(self.seed, "dropout", progress.epoch, progress.step, *rank)
        forest = share_of_batch.trees  # an engine may replace it by a graph
        h = self.model.node_states(share_of_batch, self.engine, generator=generator)
        output = self.model.outputs(h, share_of_batch)
        losses = self.model.losses(output, share_of_batch)
        loss = self.loss(losses, self.train_set.positions_of_outputs(share.positions).to(self.device)) * share.fraction
        if self.model.signals is not None and self.targets is not None and isinstance(forest, Forest):
            signal_generator = numpy_generator(self.seed, "signals", progress.epoch, progress.step)
            distinct = share.subtrees(self.train_set, positions)
            loss = loss + self.model.signals(h, forest, self.targets, signal_generator, distinct)
        self.optimizer.zero()
        loss.backward()
        self.optimizer.collect()
        is_counted = share.fraction > 0
        total, loss_sum, seen, right, stopped = self.world.sum_gradients(
            self.optimizer.parameters,
            float(loss.detach()),
            is_counted * float(losses.detach().sum()),
            is_counted * len(losses),
            is_counted * int(self.model.correct(output.detach(), share_of_batch).sum()),
            watch.number,
        )
        gradients = [parameter.grad for parameter in self.optimizer.parameters if parameter.grad is not None]
        # Checked before the parameters change, so that no infinity ever reaches a file.
        norm = torch.nn.utils.get_total_norm(gradients)
        if not (math.isfinite(total) and torch.isfinite(norm)):
            at = f"in epoch {progress.epoch + 1}, step {progress.step + 1}"
            raise self._diverged(f"The loss of {self.run.folder.name} is {total}, its gradient {norm.item()}, {at}.", positions)
        if 0 < self.config.optimizer.clip < norm:
            _torch.foreach_("mul_", gradients, self.config.optimizer.clip / norm)
        if self.recorded is None:
            self.optimizer.step(rate)
        else:
            self.recorded.optimizer.update_rows(rate)
        return Counts(loss_sum, int(seen), int(right), stopped)

    def settle(self) -> Counts:
        if not self.unread or self.recorded is None:
            return Counts(0.0, 0)
        unread, self.unread = self.unread, []
        loss_sum, seen, right, steps, fault = self.recorded.read()
        if fault:
            name = self.run.folder.name
            message = f"The loss of {name}, or its gradient, is not finite {int(steps - fault) + 1} steps before the last one."
            raise self._diverged(message, unread[int(fault) - 1])
        return Counts(loss_sum, int(seen), int(right))

    def _diverged(self, message: str, positions: np.ndarray) -> DivergenceError:
        """Return the error of a step, and log its batch."""
        ids = [self.train_set.ids[i] for i in positions]
        logger.error("the batch: %s", ", ".join(ids), extra={"run": self.run.folder.name})
        shown = ", ".join(ids[:8]) + (f" and {len(ids) - 8} more (in the log)" if len(ids) > 8 else "")
        return self.divergence(f"{message} Batch: {shown}.")

    @cached_property
    def recorded_validation(self) -> RecordedResults | None:
        return evaluation.recorded(self.model, self.validation_set, self.engine, self.world)

    def validate(self, progress: Progress) -> tuple[dict[str, float], float]:
        validation = evaluation.score(self.model, self.validation_set, self.engine, self.world, self.recorded_validation)
        if not math.isfinite(validation.loss):
            name = self.run.folder.name
            raise self.divergence(f"The validation loss of {name} is {validation.loss} after epoch {progress.epoch + 1}.")
        row = {
            "train_loss": progress.loss_sum / progress.seen,
            "train_accuracy": 100 * progress.right / progress.seen,
            "validation_loss": validation.loss,
            "validation_accuracy": validation.accuracy,
        }
        by_loss = any(head.selects_by_loss for head in self.model.heads.values())
        return row, -validation.loss if by_loss else validation.accuracy

    def summary(self, row: Mapping[str, Any]) -> str:
        train = f"train loss {row['train_loss']:.4f}, accuracy {row['train_accuracy']:.1f} %"
        return f"{train}; validation {row['validation_accuracy']:.1f} %"

    def evaluate(self, check: Callable[[], None]) -> None:
        for name in dict.fromkeys((*self.config.data.validation, *self.config.data.test)):
            check()
            # without native code, so that records do not depend on a compiler
            table = evaluation.answers_on(self.model, name, self.config.engine, self.config.data.group_by, self.world)
            if self.world.is_first:
                self.run.write_records(name, table)
                message, run = "%s on %s: accuracy %.1f %%", self.run.folder.name
                logger.info(message, run, name, records.accuracy(table), extra={"run": run})

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.optimizer.tensors(), {}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.optimizer.restore(tensors)
