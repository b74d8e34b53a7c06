"""A run: its folder, model, records, weights and environment.

config.toml         fully resolved; runs that differ only in their seed share its hash
environment.json    versions, device, commit, seed, checksums and sizes of the data; resumptions with others of the first three
language.toml       the language, unless it is `math`
vocabulary.json     rows of the embedding table
metrics.jsonl       one row per epoch
records/<data>.parquet, records/sources.json; of texts and streams records/answers.parquet, of a Stack RNN trace.jsonl
checkpoints/best.safetensors, last.safetensors
times.jsonl          the CPU time of every process that trained it
train.log            log records of the training
DONE                written last

Figures and tables read runs, so this module imports torch, the model and polars only inside the functions that need them.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dgl_treestack import atomic
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import CheckpointError, ConfigurationError, DataError
from dgl_treestack.expression import language
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import convert, read_object
from dgl_treestack.resources import BUNDLED, find_data, sha256
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import Named, RunConfig
from dgl_treestack.runs.configuration import build_model as build_model
from dgl_treestack.runs.environment import checked_environment, describe_environment
from dgl_treestack.runs.weights import load_into, read_weights, write_weights

if TYPE_CHECKING:
    import torch

    from dgl_treestack.data.records import Table
    from dgl_treestack.model.model import Model

T = TypeVar("T")
TRAIN_AGAIN = "The run is damaged; train again."
DESCRIPTION = ("config.toml", "environment.json", "vocabulary.json")


@dataclass(frozen=True)
class Source:
    """The data of records: name, checksum, and the kind of the records, empty for those of an evaluation."""

    data: str
    sha256: str
    kind: str = ""


class Run:
    """The folder of a run, which may not exist yet. Raises CheckpointError for what is missing or damaged.

    >>> Run.open("runs/quickstart-tree_smu-0").load_model()  # doctest: +SKIP
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        self.best = self.folder / "checkpoints" / "best.safetensors"
        self.last = self.folder / "checkpoints" / "last.safetensors"
        self.metrics = self.folder / "metrics.jsonl"
        self.times = self.folder / "times.jsonl"
        self.log = self.folder / "train.log"
        self.done = self.folder / "DONE"
        self.sources = self.folder / "records" / "sources.json"
        self.answers = self.folder / "records" / "answers.parquet"  # of a run on a text or on streams
        self.trace = self.folder / "trace.jsonl"

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Return an existing run folder. Raises CheckpointError when it is not one."""
        run = cls(folder)
        for name in DESCRIPTION:
            if not (run.folder / name).is_file():
                inner = sorted(path.parent for path in run.folder.glob(f"*/{name}"))
                remedy = f"Give a folder in it, such as {inner[0]}." if inner else "Give one that `train` or `Model.save` made."
                raise CheckpointError(f"{run.folder} is not a run folder: it has no {name}. {remedy}")
        return run

    def create(self, config: Named, seed: int, files: Mapping[str, str], environment: Mapping[str, Any]) -> None:
        """Create the folder with the description of the run. files: the further ones, by name. Raises OutputError."""
        for name, text in {"config.toml": configuration.dump(config), **files}.items():
            atomic.write_text(self.folder / name, text)
        # Last, so that a folder has its whole description or none.
        self.write_environment({"seed": seed, "config": config.hash, **environment})

    @staticmethod
    def description(vocabulary: Vocabulary, signature: Signature) -> dict[str, str]:
        """Return the files that describe the trees of a run, name -> text."""
        files = {"vocabulary.json": json.dumps(vocabulary.to_dict(), indent=1) + "\n"}
        return files | ({"language.toml": language.to_toml(signature)} if signature.words else {})

    @classmethod
    def of_model(cls, folder: Path, model: "Model", data: Mapping[str, Any], **origin: Any) -> Self:
        """Write a model as a folder without metrics and records, see `Model.save`. origin: where it is from."""
        tensors = model.state_dict()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(f"{folder} exists and is not empty. Choose another folder, or delete it.")
        config, seed = configuration.of_model(model, folder.resolve().name, data)
        load_into(build_model(config.model, model.vocabulary, model.signature, config.signals), tensors, folder)
        environment = {**describe_environment(str(next(model.parameters()).device)), **origin}
        run = cls(folder)
        run.create(config, seed, cls.description(model.vocabulary, model.signature), environment)
        write_weights(run.best, tensors, {"epoch": None, **origin})
        atomic.write_text(run.done, "best epoch 0\n")
        return run

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Write the environment, and forget what was read before. Raises OutputError."""
        atomic.write_text(self.folder / "environment.json", json.dumps(environment, indent=1) + "\n")
        vars(self).pop("environment", None)

    def has_description(self) -> bool:
        """Return whether the description of the run exists; it is written before all other files."""
        return all((self.folder / name).is_file() for name in DESCRIPTION)

    @cached_property
    def config(self) -> RunConfig:
        """The configuration of a run on trees. Raises ConfigurationError for another one."""
        return configuration.load(self.folder / "config.toml")

    @cached_property
    def any_config(self) -> Named:
        """The configuration of the run, of any kind."""
        return configuration.load_any(self.folder / "config.toml")

    @cached_property
    def language(self) -> Signature:
        """The language of the run's trees, from its folder. Raises ConfigurationError."""
        file = self.folder / "language.toml"
        if file.exists():
            return language.read(file)
        return MATH if self.config.data.language == MATH.name else language.find(self.config.data.language)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the run."""
        return Vocabulary.from_dict(self.read_json("vocabulary.json"))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The environment of the run, see `describe_environment`, with its seed and data. Raises CheckpointError.

        resumed: a dictionary for every resumption with another commit, device or version, with the number of complete epochs.
        """
        return self._read(self.folder / "environment.json", checked_environment, TRAIN_AGAIN)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.environment["seed"])

    def load_model(self, dtype: "torch.dtype | None" = None) -> "Model":
        """Return the model with the best weights, in evaluation mode. Raises CheckpointError.

        dtype: of the parameters, by default that of the file.
        """
        tensors, _ = read_weights(self.best)
        model = build_model(self.config.model, self.vocabulary, self.language, self.config.signals)
        model.to(dtype or next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()))
        load_into(model, tensors, self.best)
        if (self.folder / "card.json").is_file():  # a model of the package
            model.variables = tuple(json.loads((self.folder / "card.json").read_text())["variables"])
        return model.eval()

    def best_epoch(self) -> int:
        """Return the epoch of the best weights, 0 if the run is not finished. Raises CheckpointError."""
        return self._read(self.done, lambda text: int(text.split()[-1]), "Delete it and resume the run.", 0)

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file of the folder."""
        return self._read(self.folder / name, read_object, TRAIN_AGAIN)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, one per finished epoch."""
        parse = partial(checked_metrics, of_trees=isinstance(self.any_config, RunConfig))
        rows: list[dict[str, Any]] = self._read(self.metrics, parse, "Resume the run to write it again.", [])
        return [row for row in rows if row["epoch"] and row.get("validation_accuracy", 0.0) is not None]

    def read_times(self) -> list[dict[str, Any]]:
        """Return the rows of times.jsonl, one per process that trained: `epoch` and `cpu_seconds`."""
        parse = partial(checked_metrics, of_trees=False, finite=("cpu_seconds",))
        return self._read(self.times, parse, "Delete it: only the CPU time is lost.", [])

    @staticmethod
    def _read(path: Path, parse: Callable[[str], T], remedy: str, absent: T | None = None) -> T:
        """Return what `parse` makes of a text file, or `absent` where there is none. The one check of what a folder holds.

        Raises CheckpointError that ends with the remedy for a file that is gone, or that `parse` refuses.
        """
        if absent is not None and not path.exists():
            return absent
        try:
            return parse(path.read_text())
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{path} is damaged ({error!r:.300}). {remedy}") from None

    def write_records(self, data: str, table: "Table", kind: str = "") -> Path:
        """Write the records of a data file, and its name and checksum into sources.json. Returns the path of the records.

        Records are named after their data file; for a second file of that name, its checksum is appended.

        kind: such as `blanks`; empty for the records of an evaluation.
        """
        from dgl_treestack.data import records

        sources = self._sources()
        checksum = sha256(find_data(data))
        name = Path(data.removeprefix(BUNDLED)).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
        if not name:
            raise DataError(f"{data} has no name that records could be filed under.")
        name = f"{name}-{kind}" if kind else name
        if name in sources and sources[name].sha256 != checksum:
            name = f"{name}-{checksum[:8]}"
        path = self.folder / "records" / f"{name}.parquet"
        records.write(path, table)
        sources.setdefault(name, Source(data, checksum, kind))  # keeps the first name of the data, as in the configuration
        written = {name: {key: text for key, text in vars(source).items() if text} for name, source in sources.items()}
        atomic.write_text(self.sources, json.dumps(written, indent=1) + "\n")
        return path

    def read_records(self, data: str, kind: str = "") -> "Table":
        """Return the records of a data file, by its name in the configuration, or of a file with the same content.

        If several files had that name: the records of the current file, else the newest. Raises DataError if there are none.
        """
        from dgl_treestack.data import records

        return records.read(self.folder / "records" / f"{self.find_records(data, kind)[0]}.parquet")

    def find_records(self, data: str, kind: str = "") -> tuple[str, str]:
        """Return name and SHA-256 of the data of what `read_records` reads. Raises DataError if there is nothing."""
        sources = self._sources(kind)
        name_of_checksum = {source.sha256: name for name, source in sources.items() if source.data == data}
        if len(name_of_checksum) != 1:  # the file may have another name here, or have changed since
            current = sha256(path) if (path := find_data(data)).is_file() else ""
            for names in (name_of_checksum, {source.sha256: name for name, source in sources.items()}):
                if current in names:
                    return names[current], current
        if not name_of_checksum:
            raise DataError(
                f"The run has no records of {data}. Finish it with `treestack train ... --resume`, or evaluate it on the file.",
                self.folder,
            )
        checksum, name = list(name_of_checksum.items())[-1]
        return name, checksum

    def has_records(self, data: str, kind: str = "") -> bool:
        """Return whether there are records of the current content of a data file."""
        return sha256(find_data(data)) in {source.sha256 for source in self._sources(kind).values()}

    def evaluated_data(self) -> list[str]:
        """Return the data files that a finished run was evaluated on, by training and by `treestack evaluate`."""
        return [source.data for source in self._sources("").values()]

    def _sources(self, kind: str | None = None) -> dict[str, Source]:
        """Return sources.json: name of records -> their data; only of a kind, if it is given."""
        remedy = "Delete the records folder and evaluate again."
        parse = partial(convert, dict[str, Source])
        sources: dict[str, Source] = self._read(self.sources, lambda text: parse(read_object(text), "sources"), remedy, {})
        return {name: source for name, source in sources.items() if kind is None or source.kind == kind}


def checked_metrics(content: str | Iterable[Any], *, of_trees: bool, finite: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl, from its text or from rows. finite: values that are not null in any.

    Raises ValueError, TypeError or KeyError unless they hold what tables read.
    """
    needed = {"train_accuracy", "validation_accuracy"} if of_trees else set[str]()
    rows = list(map(read_object, content.splitlines()) if isinstance(content, str) else content)
    for row in rows:
        is_plain = type(row["epoch"]) is int and all(type(value) in (int, float, NoneType) for value in row.values())
        if not (is_plain and needed <= row.keys() and all(math.isfinite(row[name]) for name in finite)):
            raise ValueError(f"a row is {row!r:.200}")
    return rows
