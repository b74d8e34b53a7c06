"""The words of a run in a language of words: its vocabulary, and vectors of words from a file."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from dgl_treestack.cells import leaf_encoder
from dgl_treestack.data import formats, vectors
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.encoders import encoders
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.runs.configuration import RunConfig


def build_vocabulary(config: RunConfig, language: Signature, examples: Iterable[Example]) -> Vocabulary:
    """Return the vocabulary of a new run: the words of the training examples, or of a `.txt` file with a word per line.

    Raises ConfigurationError, DataError.
    """
    name = config.model.vocabulary
    if name == "train":
        return Vocabulary.of_words(text for example in examples for _, _, text in example.equation.leaves())
    if not name.endswith(".txt"):
        raise ConfigurationError(
            f"'model.vocabulary' is {name!r}, but in the language {language.name!r} leaves are words. "
            "Set 'train', the words of the training data, or a .txt file with a word per line."
        )
    lines = [line.strip() for line in formats.read_lines(find_data(name))]
    if not any(lines):
        raise DataError("The file has no words. Write one per line.", name)
    return Vocabulary.of_words(filter(None, lines))


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
    vector_of = vectors.read(find_data(model.vectors), words | texts, model.vector_size or model.hidden)
    return Vocabulary.of_words(words | vector_of.keys()), vector_of


def set_vectors(model: Model, vector_of_word: Mapping[str, np.ndarray], *, freeze: bool) -> None:
    """Set the rows of words that have a vector; with `freeze`, no row is trained.

    Raises ConfigurationError if the cell has no table of its leaves.
    """
    table = leaf_encoder(model.tree_cell).table
    table.requires_grad_(not freeze)
    for word, vector in vector_of_word.items():
        table.data[model.vocabulary.row("Word", word)] = torch.from_numpy(vector)
