"""The configuration of a run: one TOML file, read into frozen dataclasses. That of a run on trees; others see `Named`.

Unknown keys, wrong types and numbers out of their `ranges` are errors.
"""

import difflib
import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import tomli_w

from dgl_treestack import plain_data
from dgl_treestack.data.vocabulary import PRESETS, Vocabulary
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import language
from dgl_treestack.expression.operators import MATH, Signature

if TYPE_CHECKING:
    from dgl_treestack.model.model import Model

AnyConfig = TypeVar("AnyConfig", bound="Named")
NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"  # of a run: it names a folder
# Keys of [model] that are arguments of `Model.build`; its other arguments are those of the cell, [model.settings].
ARGUMENTS = ("name", "hidden", "dropout", "masks", "share", "vector_size", "tasks", "class_weights", "head_settings")
_NOT_SETTINGS = (*ARGUMENTS, "vocabulary", "vectors", "freeze_vectors", "operators", "tokens")


Ranges = tuple[tuple[str, float, float], ...]  # keys of numbers, minimum, exclusive maximum


@dataclass(frozen=True)
class Named:
    """The configuration of a run of any kind: on trees, or of `sequence_configuration`. name: of its folder, with the seed."""

    ranges: ClassVar[Ranges] = ()

    name: str

    def __post_init__(self) -> None:
        fault = ""
        if not re.fullmatch(NAME, self.name):
            fault = f"'name' is {self.name!r}; it names a folder: letters, digits, '.', '_' and '-' only."
        for key, low, high in ((key, low, high) for keys, low, high in self.ranges for key in keys.split()):
            value = attrgetter(key)(self)
            if not low <= value < high:
                fault = fault or f"{key!r} is {value}; it must be at least {low:g} and below {high:g}."
        if fault:
            raise ConfigurationError(fault)

    def values(self) -> dict[str, Any]:
        """Return all values as plain data."""
        return asdict(self)

    @property
    def hash(self) -> str:
        """A hash of all values, the same for runs that differ only in their seed."""
        return hashlib.sha256(json.dumps(self.values(), sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class ModelConfig:
    """The model of a run.

    name: a model of `treestack cells`. masks: whether dropout is drawn per node of a batch, or per distinct subtree, which is
    then computed once. vocabulary: a preset, `train`, or a `.txt` file of words. vectors: file of vectors of words, the first
    values of the table; empty for none. vector_size: numbers per row of the table, 0 for as many as `hidden`. freeze_vectors:
    whether the table keeps its first values. tasks: an equation belongs to the first that accepts it. class_weights: of the
    loss by class, 1 for those not named. settings: arguments of the model's class besides the common ones, such as stack_size.
    head_settings: arguments of a task's class, by task. start: the run, or model of the package, with whose weights the
    training starts; empty for none.
    """

    name: str
    hidden: int = 50
    dropout: float = 0.0
    masks: Literal["node", "subtree"] = "node"
    share: Literal["operator", "all"] = "operator"
    vocabulary: str = "canonical"
    vectors: str = ""
    vector_size: int = 0
    freeze_vectors: bool = False
    tasks: tuple[str, ...] = ("verification",)
    class_weights: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    head_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    start: str = ""


@dataclass(frozen=True)
class SignalsConfig:
    """Losses at nodes, in training only: weights, 0 for none, and settings of `NodeSignals`.

    slots: parts of h that the value network reads one by one; 0 for as many as the cell has.
    """

    value: float = 0.0
    equivalence: float = 0.0
    points: int = 8
    slots: int = 0
    width: int = 32
    rows: int = 512
    temperature: float = 0.1


@dataclass(frozen=True)
class DataConfig:
    """The data of a run: files of examples, or `bundled:...` for those in the package.

    language: its name, or the path of a .toml file (`expression.language`).

    train, validation, test: files for training, for selecting the best weights, and for evaluating them at the end.
    max_depth, min_depth: depths of the training and validation equations; a max_depth of 0 is no limit. percent: share of the
    training equations, selected by pair; a larger share contains every smaller one. group_by: the measure of a tree by which
    curves and tables group (`model.dataset.measure`). pairs_together: whether the members of a pair follow each
    other in training.
    """

    language: str = "math"
    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    max_depth: int = 0
    min_depth: int = 0
    percent: float = 100.0
    group_by: Literal["depth", "size", "operators"] = "depth"
    pairs_together: bool = False

    @property
    def depths(self) -> range:
        """The depths of training and validation equations."""
        return range(self.min_depth, self.max_depth + 1 if self.max_depth else sys.maxsize)

    @property
    def files(self) -> tuple[str, ...]:
        """All files."""
        return (*self.train, *self.validation, *self.test)


@dataclass(frozen=True)
class OptimizerConfig:
    """An optimizer: `adam`, with weight decay added to the gradient; `muon` for matrices and Adam for the rest
    (`training.muon`); or a class of `torch.optim` by its name, such as `AdamW`, with `settings` for its other arguments.

    gradients: zeroing sets a gradient to `none`, so that parameters of an operator that is not in the batch stay unchanged, or
    to `zeros`, so that a parameter, once used, is updated at every step, as in the authors' training. clip: maximum norm of the
    gradient, 0 for no limit.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 1e-5
    gradients: Literal["none", "zeros"] = "none"
    clip: float = 0.0
    method: str = "adam"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleConfig:
    """Epochs and learning rate.

    plateau: after this many epochs without a better validation accuracy, or loss for `regression`, the learning rate is
    multiplied by factor.
    early_stopping: after this many, training ends. 0 switches either off (as in Arabshahi; Mali halves on a plateau).
    warmup: steps in which the learning rate rises linearly to its value. decay: `cosine`, from there to zero at the last step.
    """

    epochs: int = 100
    plateau: int = 0
    factor: float = 0.5
    early_stopping: int = 0  # with 5, slow starters such as an LSTM over tokens stop before they learn
    warmup: int = 0
    decay: Literal["none", "cosine"] = "none"

    def rate_factor(self, step: int, steps: int) -> float:
        """The factor of the learning rate at a step of the run, from 0. steps: of an epoch."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.decay == "none":
            return 1.0
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.warmup) / max(1, self.epochs * steps - self.warmup))


@dataclass(frozen=True)
class RunConfig(Named):
    """The complete configuration of a run on trees, except for its seed.

    compile: native code for the engine `levels`; `auto` uses it for long runs if there is a compiler. checkpoint_steps: steps
    between checkpoints within an epoch; there is also one at its end.
    """

    ranges = (
        ("batch_size checkpoint_steps", 1, math.inf),
        ("data.max_depth data.min_depth schedule.epochs schedule.warmup schedule.plateau schedule.early_stopping", 0, math.inf),
        ("optimizer.learning_rate optimizer.epsilon optimizer.weight_decay optimizer.clip", 0, math.inf),
        ("model.dropout optimizer.beta1 optimizer.beta2", 0, 1),
        ("model.hidden", 1, 1e6),
        ("model.vector_size", 0, 10_001),
        ("data.percent", 1e-6, 100.000001),
        ("schedule.factor", 0, 1.000001),
    )

    model: ModelConfig
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    signals: SignalsConfig = SignalsConfig()
    batch_size: int = 32
    engine: Literal["levels", "topo"] = "levels"
    compile: Literal["auto", "on", "off"] = "auto"
    checkpoint_steps: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        common, fault = [key for key in self.model.settings if key in _NOT_SETTINGS], ""
        if common:
            fault = f"{common[0]!r} is no setting of a model's class; common arguments are keys of [model]."
        elif self.model.start and self.model.vectors:
            fault = "'model.vectors' and 'model.start' both give vectors of leaves. Leave one of them out."
        elif self.model.freeze_vectors and not self.model.vectors:
            fault = "'model.freeze_vectors' is true, but there are none. Name their file in 'model.vectors'."
        if fault:
            raise ConfigurationError(fault)

    def values(self) -> dict[str, Any]:
        """Return all values, without empty ones that earlier versions lack: hashes name runs, also committed ones."""
        values = asdict(self)
        for table, key in (("model", "start"), ("optimizer", "settings")):
            if not values[table][key]:
                del values[table][key]
        return values


def load(path: Path) -> RunConfig:
    """Return the configuration of a run on trees in a TOML file. Raises ConfigurationError that names the file."""
    config = load_any(path)
    if not isinstance(config, RunConfig):
        raise ConfigurationError(f"{path}: it describes a {config.kind}, not a run on trees, which this command needs.")
    return config


def load_any(path: Path) -> Any:
    """Return the configuration of a run of any kind in a TOML file. Raises ConfigurationError that names the file."""
    return plain_data.read_toml(path, from_tables)


def from_tables(tables: dict[str, Any]) -> Any:
    """Return the configuration of a run of any kind: on trees, `model` is a table; on streams, there is a `task`, on a
    transduction a `transduction`."""
    if not isinstance(tables.get("model"), str):
        return plain_data.build(RunConfig, tables)
    from dgl_treestack.runs import sequence_configuration as sequences  # here, since that module needs this one

    kinds: dict[str, Any] = {"task": sequences.StreamConfig, "transduction": sequences.TransductionConfig}
    return plain_data.build(next((kinds[key] for key in kinds if key in tables), sequences.TextConfig), tables)


def override(config: AnyConfig, assignments: Sequence[str]) -> AnyConfig:
    """Return what `plain_data.override` does. Raises ConfigurationError; for a key without its table it names the whole key."""
    whole = {key.rpartition(".")[2]: key for key in plain_data.flat(config)} | {name: name for name in vars(config)}
    whole |= {"lr": "optimizer.learning_rate", "stack_size": "model.settings.stack_size"}
    for key in (assignment.partition("=")[0] for assignment in assignments):
        nearest = difflib.get_close_matches(key, whole, n=1)
        if nearest and "." not in key and key not in vars(config):
            raise ConfigurationError(f"Unknown key {key!r}. Did you mean {whole[nearest[0]]!r}?")
    return plain_data.override(config, assignments)


def dump(config: Named) -> str:
    """Return the configuration as TOML, fully resolved; `load_any` reads it back. Raises ConfigurationError."""
    try:
        return tomli_w.dumps(config.values())
    except TypeError as error:  # a setting of a model that was built in Python
        raise ConfigurationError(f"A value of {config.name!r} cannot be written: {error}.") from None


def build_model(
    config: ModelConfig, vocabulary: Vocabulary | None = None, signature: Signature = MATH, signals: SignalsConfig | None = None
) -> "Model":
    """Return the model of a configuration, its parameters uninitialised. Raises ConfigurationError, VocabularyError.

    vocabulary: by default the preset of the configuration. signals: losses at nodes; none without.
    """
    from dgl_treestack.model.model import Model

    vocabulary = Vocabulary.preset(config.vocabulary) if vocabulary is None else vocabulary
    common = {name: getattr(config, name) for name in ARGUMENTS}
    if signals and (signals.value or signals.equivalence):
        common["signals"] = {name: value for name, value in vars(signals).items() if name != "slots" or value}
    return Model.build(vocabulary=vocabulary, signature=signature, **common, **config.settings)


def of_model(model: "Model", folder: str, data: Mapping[str, Any]) -> tuple[RunConfig, int]:
    """Return the configuration from which `build_model` makes a model, and its seed. Raises ConfigurationError.

    folder: NAME or NAME-SEED. data: keys of [data].
    """
    from dgl_treestack import cells

    arguments, signature, fault = model.arguments, model.signature, ""
    class_or_name = arguments.get("name")
    of_class = {name: spec for name, spec in cells.models().items() if spec.cell is class_or_name}
    names = [name for name, spec in of_class.items() if spec.settings.items() <= arguments.items()]
    if not arguments:
        fault = "The model was made without `Model.build`, which knows its configuration. Build it by that."
    elif not names and isinstance(class_or_name, type):
        fault = f"{class_or_name.__name__} has no name. Write @register_cell(NAME) above the class."
    elif not signature.words and language.languages().get(signature.name) != signature:
        fault = f"The language {signature.name!r} is not registered. Call register_language for it."
    if fault:
        raise ConfigurationError(fault)
    if signature.words:
        language.from_dict(plain_data.tables_of(language.to_toml(signature)))  # raises for what its file cannot describe
    presets = [name for name, preset in PRESETS.items() if preset == model.vocabulary]
    described = {name: arguments[name] for name in ARGUMENTS if arguments.get(name) is not None}
    described["name"] = [*names, class_or_name][0]
    described["vocabulary"] = "train" if signature.words else [*presets, "vocabulary.json"][0]
    described["settings"] = {name: value for name, value in arguments.items() if name not in (*ARGUMENTS, "signals")}
    tables = {"model": described, "data": {"language": signature.name, **data}, "signals": dict(arguments["signals"] or {})}
    name_and_seed = re.fullmatch("(.+)-([0-9]+)", folder)
    name, seed = name_and_seed.groups() if name_and_seed else (folder, "0")
    return plain_data.build(RunConfig, {"name": name, **tables}), int(seed)
