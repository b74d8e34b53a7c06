"""The configuration of a run of a language model: one TOML file."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dgl_treestack import plain_data
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.runs import configuration
from dgl_treestack.sequence import LSTM, RNN, SCRN, SequenceCell, StackRNN

CELLS: dict[str, type[SequenceCell]] = {"rnn": RNN, "lstm": LSTM, "scrn": SCRN, "stack_rnn": StackRNN}


@dataclass(frozen=True)
class LanguageConfig:
    """The complete configuration of a run, except for its seed and its text.

    settings: arguments of the cell's class. streams: the number of pieces of the training text that are read in parallel.
    window: the number of tokens between updates, through which gradients are propagated. clip: bound of the entries of all
    gradients. factor, patience: after an epoch without a lower validation entropy, the learning rate is multiplied by `factor`
    and training continues from the best weights; it ends after `patience` such epochs in a row. Adam's moments are reset at
    the start of every epoch.
    """

    name: str
    model: Literal["rnn", "lstm", "scrn", "stack_rnn"]
    hidden: int = 100
    settings: dict[str, Any] = field(default_factory=dict)
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    factor: float = 0.5
    patience: int = 3
    epochs: int = 50
    streams: int = 32
    window: int = 50
    clip: float = 15.0

    def __post_init__(self) -> None:
        if not re.fullmatch(configuration.NAME, self.name):
            raise ConfigurationError(f"'name' is {self.name!r}; it names a folder: letters, digits, '.', '_' and '-' only.")
        for key in ("hidden", "streams", "window", "epochs", "patience"):
            if getattr(self, key) < 1:
                raise ConfigurationError(f"{key!r} is {getattr(self, key)}; it must be at least 1.")
        for key in ("learning_rate", "factor", "clip"):
            if not 0 < getattr(self, key) < math.inf:
                raise ConfigurationError(f"{key!r} is {getattr(self, key)}; it must be above 0.")
        self.cell()

    def cell(self) -> SequenceCell:
        """Build the cell, with `hidden` inputs. Raises ConfigurationError for an unknown setting."""
        if "restarts" in self.settings:
            raise ConfigurationError("'restarts' is no setting of a language model, which trains one net. Remove it.")
        try:
            return CELLS[self.model](self.hidden, self.hidden, **self.settings)
        except TypeError as error:
            raise ConfigurationError(f"Model {self.model!r}: {str(error).split('() ')[-1]}.") from None


def load(path: Path, assignments: Sequence[str] = ()) -> LanguageConfig:
    """Read a configuration from a TOML file, values replaced by KEY=VALUE. Raises ConfigurationError that names the file."""

    def build(data: dict[str, Any]) -> LanguageConfig:
        return plain_data.override(plain_data.build(LanguageConfig, data), assignments)

    return plain_data.read_toml(path, build)
