"""What a training is made of, from its configuration: examples, vocabulary, optimizer, targets of signals."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dgl_treestack import plain_data
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.generate import presets
from dgl_treestack.model.model import Model
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.resources import find_data
from dgl_treestack.runs.configuration import DataConfig, RunConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.sequence.encoders import encoders
from dgl_treestack.tasks import tasks

Fold = Literal["train", "validation"]
DataSets = Mapping[Fold, TreeDataset]
Place = Literal["auto", "memory", "disk"]  # of the columns of the training set
_FREE = ("dropout", "masks", "tasks", "class_weights", "head_settings", "start")  # may differ from a run's start
LARGE = 100_000_000  # bytes of training files from which on `auto` means the disk: in memory they would take some 15 GB


def check_files(data: DataConfig, passed: DataSets) -> None:
    """Raise DataError for a file that does not exist, with the command that generates it. passed: sets in place of files."""
    names = [name for kind in ("train", "validation", "test") if kind not in passed for name in getattr(data, kind)]
    missing = next((name for name in names if not find_data(name).exists()), None)
    if missing is not None:
        folder = find_data(missing).parent
        preset = re.sub(r"-[0-9]+[km]$", "", folder.name)  # of a folder such as paper-200k
        size = folder.name.removeprefix(preset)[1:].replace("k", "000").replace("m", "000000")
        command = f"treestack generate {preset}{size and f' --train-size {size}'} --output-dir {folder}"
        remedy = f"Generate it: {command}" if preset in presets.names() else "Write its path from the folder where you work."
        raise DataError(f"Cannot be read: No such file. {remedy}", missing)


def is_on_disk(config: RunConfig, columns: Place, data: DataSets) -> bool:
    """Return whether the columns of the training set are read from disk. data: sets that were passed, which are in memory.

    `auto` is the disk for large files, but for signals, which need the values of all subexpressions in memory, for tasks that
    are not of this package, and where nothing can be written beside the files. Raises ConfigurationError for columns on disk of
    a set that was passed.
    """
    if columns == "disk" and "train" in data:
        raise ConfigurationError("The training set that was passed is in memory. Name its file in 'data.train' instead.")
    # Signals read the values of all subexpressions, which only a set in memory has.
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
    kind: Fold
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


def vocabulary(config: RunConfig, signature: Signature, examples: Iterable[Example], start: Run | None) -> Vocabulary:
    """Return the vocabulary of a new run: that of its start; a preset; the words of the training examples, or of a `.txt` file
    with a word per line. Raises ConfigurationError, DataError."""
    name = config.model.vocabulary
    if start and name in ("train", start.config.model.vocabulary):
        return start.vocabulary
    is_of_words = name == "train" or name.endswith(".txt")
    if is_of_words != bool(signature.words):
        leaves, remedy = "numbers and variables", "a preset, such as 'canonical'"
        if signature.words:
            leaves, remedy = "words", "'train', the words of the training data, or a .txt file with a word per line"
        raise ConfigurationError(
            f"'model.vocabulary' is {name!r}, but in the language {signature.name!r} leaves are {leaves}. Set {remedy}."
        )
    if not is_of_words:
        return Vocabulary.preset(name)
    if name == "train":
        return Vocabulary.of_words(text for example in examples for _, _, text in example.equation.leaves())
    lines = [line.strip() for line in formats.read_lines(find_data(name))]
    if not any(lines):
        raise DataError("The file has no words. Write one per line.", name)
    return Vocabulary.of_words(filter(None, lines))


def load_start(model: Model, config: RunConfig, start: Run) -> str:
    """Give a model the weights of the run that it starts from. Returns what it has taken, in words.

    The whole cell must be the same there. A head, or the networks of the signals, keeps its values if it is another one there.
    Raises ConfigurationError for another cell, CheckpointError.
    """
    origin, kept = start.load_model(), []
    for part in ["cell", *(f"heads.{name}" for name in model.heads), *(["signals"] if model.signals else [])]:
        if _kind(model, part) == _kind(origin, part):
            model.get_submodule(part).load_state_dict(origin.get_submodule(part).state_dict())
        elif part == "cell":
            here, there = (plain_data.flat(settings) for settings in (config.model, start.config.model))
            keys = [key for key in here | there if key.partition(".")[0] not in _FREE and here.get(key) != there.get(key)]
            values = (
                "; ".join(f"model.{key} is {here.get(key)}, there {there.get(key)}" for key in keys) or "its vocabulary differs"
            )
            file = start.folder / "config.toml"
            raise ConfigurationError(f"The weights of 'model.start' are of another model: {values}. Set the values of {file}.")
        else:
            kept.append(part)
    return f"starts with the weights of {start.folder}" + (f", but for new {', '.join(kept)}" if kept else "")


def _kind(model: Model, part: str) -> tuple[Any, ...]:
    """Return what two models have in common if the weights of a part of one fit the other."""
    module = dict(model.named_modules()).get(part)
    shapes = {} if module is None else {name: tensor.shape for name, tensor in module.state_dict().items()}
    vocabulary, settings = model.vocabulary, model.arguments["head_settings"] or {}
    others = (vocabulary.leaves, vocabulary.unify) if part == "cell" else settings.get(part.removeprefix("heads."))
    return shapes, re.sub(r"\b(dropout|p)=[^,)]*", "", repr(module)), others


def read_vectors(
    config: RunConfig, language: Signature, vocabulary: Vocabulary, validation: Sequence[Example]
) -> tuple[Vocabulary, dict[str, np.ndarray]]:
    """Return the vocabulary of a run, and the vectors of its words, word -> (size,).

    To the words of the training data come those of the validation examples and of the validation and test files that have a
    vector: otherwise they would be unknown. A vocabulary from a file stays as it is.
    Raises ConfigurationError for a language or a model without vectors for its leaves, DataError for a damaged file.
    """
    model = config.model
    if not language.words or model.name in encoders():
        reason = f"{model.name} has no leaf encoder" if language.words else f"leaves of {language.name!r} are no words"
        raise ConfigurationError(f"'model.vectors' is {model.vectors!r}, but {reason}. Leave it out.")
    words, texts = {text for _, text in vocabulary.leaves[1:]}, set[str]()
    if model.vocabulary == "train":
        files = formats.read_examples((*config.data.validation, *config.data.test), signature=language)
        texts = {text for example in (*validation, *files) for _, _, text in example.equation.leaves()}
    vector_of = formats.read_vectors(find_data(model.vectors), words | texts, model.vector_size or model.hidden)
    return Vocabulary.of_words(words | vector_of.keys()), vector_of
