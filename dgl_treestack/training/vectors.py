"""Vectors from a file for a run that begins: which words need one, and which vocabulary follows from that."""

from collections.abc import Sequence

import numpy as np

from dgl_treestack.data import formats, vectors
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.encoders import encoders
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.resources import find_data
from dgl_treestack.runs.configuration import RunConfig


def read(
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
