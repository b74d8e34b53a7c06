"""What a run is: one TOML file, read into frozen dataclasses. Unknown keys and wrong types are errors."""

import dataclasses
import hashlib
import json
import math
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomli_w

from dgl_treestack.errors import ConfigurationError, unknown

# key, least value, first value beyond
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("batch_size", 1, math.inf),
    ("checkpoint_steps", 1, math.inf),
    ("model.hidden", 1, 1e6),
    ("model.dropout", 0, 1),
    ("data.max_depth", 0, math.inf),
    ("data.min_depth", 0, math.inf),
    ("data.percent", 1e-6, 100.000001),
    ("optimizer.learning_rate", 0, math.inf),
    ("optimizer.beta1", 0, 1),
    ("optimizer.beta2", 0, 1),
    ("optimizer.epsilon", 0, math.inf),
    ("optimizer.weight_decay", 0, math.inf),
    ("schedule.epochs", 0, math.inf),
    ("schedule.plateau", 0, math.inf),
    ("schedule.factor", 0, 1.000001),
    ("schedule.early_stopping", 0, math.inf),
)


Built = typing.TypeVar("Built")
NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"  # of a run: it names a folder
_NOT_SETTINGS = ("name", "hidden", "dropout", "masks", "share", "vocabulary", "tasks", "operators", "tokens", "input_size")


@dataclass(frozen=True)
class ModelConfig:
    """name: a model of `treestack cells`. tasks: a model answers with the first that accepts an equation.
    masks: dropout is drawn for every node of a batch, or for every distinct subtree, which is then computed once.
    settings: what the model's class takes beyond the common ones, such as stack_size."""

    name: str
    hidden: int = 50
    dropout: float = 0.0
    masks: Literal["node", "subtree"] = "node"
    share: Literal["operator", "all"] = "operator"
    vocabulary: str = "canonical"
    tasks: tuple[str, ...] = ("verification",)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.settings:
            if key in _NOT_SETTINGS:
                raise ConfigurationError(f"{key!r} is no setting of a model's class; what is common to all stands beside it.")


@dataclass(frozen=True)
class DataConfig:
    """Files of equations, or `bundled:...` for those in the package. Test sets are evaluated by the best weights at the end."""

    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    max_depth: int = 0  # of training and validation equations; 0 for no limit
    min_depth: int = 0  # likewise
    percent: float = 100.0  # of the training equations, by pair; what a smaller share has, a larger one has too

    @property
    def depths(self) -> range:
        """Of training and validation equations."""
        return range(self.min_depth, self.max_depth + 1 if self.max_depth else sys.maxsize)


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam, with weight decay added to the gradient. gradients: whether zeroing sets a gradient to `none` (an operator that
    is not in the batch stays as it is) or to `zeros` (once used, it is updated at every step, as in the authors' training)."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 1e-5
    gradients: Literal["none", "zeros"] = "none"


@dataclass(frozen=True)
class ScheduleConfig:
    """Epochs and learning rate. plateau: after that many epochs without a better validation accuracy the rate is multiplied by
    factor; early_stopping: after that many, training ends. 0 switches either off (as Arabshahi; Mali halves on a plateau)."""

    epochs: int = 100
    plateau: int = 0
    factor: float = 0.5
    early_stopping: int = 0


@dataclass(frozen=True)
class RunConfig:
    """One complete run, but for the seed."""

    name: str
    model: ModelConfig
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    batch_size: int = 32
    engine: Literal["levels", "topo"] = "levels"
    compile: Literal["auto", "on", "off"] = "auto"  # native code for `levels`; auto: for long runs, where there is a compiler
    checkpoint_steps: int = 500  # a checkpoint at least every so many steps, besides one at every epoch

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise ConfigurationError(f"'name' is {self.name!r}; it names a folder: letters, digits, '.', '_' and '-' only.")
        for key, low, high in _RANGES:
            value: Any = self
            for part in key.split("."):
                value = getattr(value, part)
            if not low <= value < high:
                raise ConfigurationError(f"{key!r} is {value}; it must be at least {low:g} and below {high:g}.")

    @property
    def hash(self) -> str:
        """The same for runs that differ only in their seed."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def load(path: Path) -> RunConfig:
    """The configuration in a TOML file. Raises ConfigurationError that names the file."""
    return read_toml(path, from_dict)


def read_toml(path: Path, build: Callable[[dict[str, Any]], Built]) -> Built:
    """What is built from a TOML file. Raises ConfigurationError that names the file."""
    try:
        return build(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def from_dict(data: dict[str, Any]) -> RunConfig:
    """The configuration of plain data. Raises ConfigurationError."""
    if isinstance(data.get("model"), str):
        raise ConfigurationError("It describes a language model. Give the folder of its text with --data.")
    return _build(RunConfig, data, "")


def build(cls: type[Built], data: dict[str, Any]) -> Built:
    """A dataclass from plain data, every key and type checked. Raises ConfigurationError."""
    return typing.cast(Built, _build(cls, data, ""))


def dump(config: RunConfig) -> str:
    """The configuration as TOML, fully resolved; `load` reads it back."""
    return tomli_w.dumps(_plain(dataclasses.asdict(config)))


def override(config: RunConfig, assignments: typing.Iterable[str]) -> RunConfig:
    """The configuration with some values replaced: `schedule.epochs=3`, `model.settings.stack_size=2`.

    Raises ConfigurationError for anything that is not KEY=VALUE with a TOML value (a bare word is taken as text).
    """
    return from_dict(assigned(_plain(dataclasses.asdict(config)), assignments))


def assigned(data: dict[str, Any], assignments: typing.Iterable[str]) -> dict[str, Any]:
    """Plain data with values replaced by KEY=VALUE, where dots in the key lead into tables. Raises ConfigurationError."""
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigurationError(f"{assignment!r} is not KEY=VALUE, such as schedule.epochs=3.")
        *tables, last = key.split(".")
        table = data
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ConfigurationError(f"{key!r}: {name!r} is no table.")
        table[last] = _value(value)
    return data


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def _build(cls: type, data: dict[str, Any], prefix: str) -> Any:
    fields = {entry.name: entry for entry in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    for key in data:
        if key not in fields:
            raise ConfigurationError(unknown("key", prefix + key, [prefix + name for name in fields]))
    for name, entry in fields.items():
        if name not in data and entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise ConfigurationError(f"The key {prefix + name!r} is missing.")
    return cls(**{key: _convert(hints[key], value, prefix + key) for key, value in data.items()})


def _convert(kind: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _build(typing.cast(type, kind), value, key + ".")
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise ConfigurationError(unknown(f"value for {key!r}:", str(value), typing.get_args(kind)))
        return value
    if kind == tuple[str, ...]:
        entries = [value] if isinstance(value, str) else value
        if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
            return tuple(entries)
    elif isinstance(kind, types.GenericAlias):
        if isinstance(value, dict):
            return value
    elif kind is float and type(value) in (int, float):
        return float(value)
    elif type(value) is kind:
        return value
    raise ConfigurationError(f"{key!r} is {value!r}; expected {getattr(kind, '__name__', kind)}.")
