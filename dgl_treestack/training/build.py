"""What a training is made of, from its configuration: examples, vocabulary, optimizer, targets of signals."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.distributed import World
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.model.stored_set import StoredSet
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.resources import find_data
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.tasks import tasks
from dgl_treestack.training import words
from dgl_treestack.training.adam import NamedAdam
from dgl_treestack.training.muon import NamedMuon
from dgl_treestack.truth.subtrees import Targets, targets_of

Kind = Literal["train", "validation"]
DataSets = Mapping[Kind, TreeDataset]
Place = Literal["auto", "memory", "disk"]  # of the columns of the training set
LARGE = 100_000_000  # bytes of training files from which on `auto` means the disk: in memory they would take some 15 GB


def is_on_disk(config: RunConfig, columns: Place, data: DataSets) -> bool:
    """Return whether the columns of the training set are read from disk. data: sets that were passed, which are in memory.

    `auto` is the disk for large files, but for signals, which need the values of all subexpressions in memory, for tasks that
    are not of this package, and where nothing can be written beside the files. Raises ConfigurationError for columns on disk of
    a set that was passed.
    """
    if columns == "disk" and "train" in data:
        raise ConfigurationError("The training set that was passed is in memory. Name its file in 'data.train' instead.")
    if columns != "auto" or "train" in data or config.signals.value or config.signals.equivalence:
        return columns == "disk"
    paths = [path for path in map(find_data, config.data.train) if path.is_file()]
    if sum(path.stat().st_size for path in paths) <= LARGE:
        return False
    return all(tasks()[name].is_ours() for name in config.model.tasks) and os.access(paths[0].parent, os.W_OK)


@dataclass(frozen=True)
class LabelledExamples(Iterable[Example]):
    """The labelled examples of the configured depths, from `data` or the configuration's files, read at every iteration.

    unique_ids: see `formats.read`. The iteration raises ConfigurationError when there are none, DataError for a damaged file.
    """

    config: RunConfig
    signature: Signature
    kind: Kind
    data: DataSets
    unique_ids: bool = True

    def __iter__(self) -> Iterator[Example]:
        config, empty = self.config.data, True
        names, percent = (config.train, config.percent) if self.kind == "train" else (config.validation, 100.0)
        stream = formats.stream_examples(names, percent=percent, signature=self.signature, unique_ids=self.unique_ids)
        for example in self.data[self.kind].examples if self.kind in self.data else stream:
            labels = (example.label, *example.labels)
            if example.equation.depth in config.depths and any(label is not None for label in labels):
                empty = False
                yield example
        if empty:
            raise ConfigurationError(f"'data.{self.kind}' of {self.config.name!r} has no labelled examples: {list(names)}.")


def train_set(config: RunConfig, model: Model, examples: Iterable[Example], *, on_disk: bool) -> Dataset:
    """Return the training set, in memory or from columns on disk, which are written if there are none."""
    if not on_disk:
        return model.prepare(list(examples)).with_targets()
    selection = [config.data.min_depth, config.data.max_depth, config.data.percent]
    return StoredSet.prepare(model, config.data.train, examples, selection=selection, group_by=config.data.group_by)


def targets(config: RunConfig, model: Model, train_set: Dataset, world: World) -> Targets | None:
    """Return the targets of the signals, None for a model without any. Raises ConfigurationError for several processes."""
    if model.signals is None:
        return None
    if world.size > 1 and config.signals.equivalence:
        raise ConfigurationError(
            "'signals.equivalence' compares all subexpressions of a batch, which several processes share out. Train in one "
            "process, or set it to 0."
        )
    return targets_of(train_set.forest, config.signals.points)


def optimizer(config: RunConfig, model: Model) -> NamedAdam:
    """Return the optimizer of a configuration."""
    # decay would move the vector of a word to zero as fast as the learning rate allows, while no batch has the word
    undecayed = ["cell.leaves.table"] if config.model.vectors else []
    if config.optimizer.method == "muon":
        return NamedMuon(model, config.optimizer, undecayed)
    return NamedAdam(model, config.optimizer, undecayed)


def vocabulary(config: RunConfig, signature: Signature, examples: Iterable[Example]) -> Vocabulary:
    """Return the vocabulary of a new run: a preset, or one of words. Raises ConfigurationError, DataError."""
    name = config.model.vocabulary
    if signature.words:
        return words.build_vocabulary(config, signature, examples)
    if name == "train" or name.endswith(".txt"):
        raise ConfigurationError(
            f"'model.vocabulary' is {name!r}, but in the language {signature.name!r} leaves are numbers and variables. "
            "Set a preset, such as 'canonical'."
        )
    return Vocabulary.preset(name)
