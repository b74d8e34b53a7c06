"""What a run of a language model is: one TOML file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.sequence import LSTM, RNN, SCRN, SequenceCell, StackRNN
from dgl_treestack.training import configuration

CELLS: dict[str, type[SequenceCell]] = {"rnn": RNN, "lstm": LSTM, "scrn": SCRN, "stack_rnn": StackRNN}


@dataclass(frozen=True)
class LanguageConfig:
    """One complete run, but for the seed and the text. streams: the training text is cut into so many, read side by side.
    window: tokens between updates, through which gradients go back. clip: of every gradient's entries. When the validation
    entropy does not fall, the rate is multiplied by `factor` and the best weights are taken up again; training ends after
    `patience` such epochs in a row. Adam's moments begin anew with every epoch. settings: what the cell takes."""

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
        for key in ("hidden", "streams", "window", "epochs", "patience"):
            if getattr(self, key) < 1:
                raise ConfigurationError(f"{key!r} is {getattr(self, key)}; it must be at least 1.")
        if self.model not in CELLS:
            raise ConfigurationError(unknown("model", self.model, CELLS))

    def cell(self) -> SequenceCell:
        """The cell over `hidden` inputs. Raises ConfigurationError for an unknown setting."""
        try:
            return CELLS[self.model](self.hidden, self.hidden, **self.settings)
        except TypeError as error:
            raise ConfigurationError(f"Model {self.model!r}: {str(error).split('() ')[-1]}.") from None


def load(path: Path) -> LanguageConfig:
    """The configuration in a TOML file. Raises ConfigurationError that names the file."""
    found: LanguageConfig = configuration.read_toml(path, lambda data: configuration.build(LanguageConfig, data))
    return found
