"""What a training is made of, from its configuration: vocabulary, optimizer, targets of signals."""

from collections.abc import Sequence

from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.distributed import World
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import Signature
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.training import words
from dgl_treestack.training.muon import NamedMuon
from dgl_treestack.training.state import NamedAdam
from dgl_treestack.truth.subtrees import Targets, targets_of


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


def vocabulary(config: RunConfig, signature: Signature, examples: Sequence[Example]) -> Vocabulary:
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
