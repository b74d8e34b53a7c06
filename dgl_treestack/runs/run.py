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
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Self

from dgl_treestack import atomic
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import CheckpointError, ConfigurationError, DataError
from dgl_treestack.expression import language
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.plain_data import read_json
from dgl_treestack.resources import BUNDLED, find_data, sha256
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import Named, RunConfig
from dgl_treestack.runs.configuration import build_model as build_model
from dgl_treestack.runs.environment import describe_environment
from dgl_treestack.runs.weights import load_into, opened, read_weights, write_weights

if TYPE_CHECKING:
    import torch

    from dgl_treestack.data.records import Table
    from dgl_treestack.model.model import Model

DESCRIPTION = ("config.toml", "environment.json", "vocabulary.json")


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
        environment, path = self.read_json("environment.json"), self.folder / "environment.json"
        kinds: dict[str, type] = {
            "seed": int,
            "device": str,
            **dict.fromkeys(("versions", "equations", "data"), dict),
            **dict.fromkeys(("measured", "resumed"), list),
        }
        for key, kind in kinds.items():
            if (key in environment or key == "seed") and type(environment.get(key)) is not kind:
                raise CheckpointError(f"{path}: {key!r} is {environment.get(key)!r}. The run is damaged; train again.")
        for entry in environment.get("resumed", []):
            if not (type(entry) is dict and type(entry.get("epochs")) is int and type(entry.get("versions")) is dict):
                raise CheckpointError(f"{path}: a resumption is {entry!r:.200}. The run is damaged; train again.")
        return environment

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

    def count_parameters(self) -> int:
        """Return the number of parameters in the file of the best weights, 0 without such a file. Raises CheckpointError."""
        if not self.best.exists():
            return 0
        with opened(self.best, "numpy") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118

    def best_epoch(self) -> int:
        """Return the epoch of the best weights, 0 if the run is not finished. Raises CheckpointError."""
        try:
            return int(self.done.read_text().split()[-1])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, IndexError) as error:
            raise CheckpointError(f"{self.done} is damaged ({error!r}). Delete it and resume the run.") from None

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file of the folder."""
        try:
            data, _ = read_json((self.folder / name).read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.folder / name} cannot be read: {error}. The run is damaged; train again.") from None
        if not isinstance(data, dict):
            raise CheckpointError(f"{self.folder / name} holds no JSON object. The run is damaged; train again.")
        return data

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, one per finished epoch."""
        if not self.metrics.exists():
            return []
        try:
            lines = self.metrics.read_text().splitlines()
            rows = checked_metrics([read_json(line)[0] for line in lines], of_trees=isinstance(self.any_config, RunConfig))
            return [row for row in rows if row["epoch"] and row.get("validation_accuracy", 0.0) is not None]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.metrics} is damaged ({error!r}). Resume the run to write it again.") from None

    def read_times(self) -> list[dict[str, Any]]:
        """Return the rows of times.jsonl, one per process that trained: `epoch` and `cpu_seconds`."""
        if not self.times.exists():
            return []
        try:
            rows = [read_json(line)[0] for line in self.times.read_text().splitlines()]
            times = [{"epoch": int(row["epoch"]), "cpu_seconds": float(row["cpu_seconds"])} for row in rows]
            if not all(math.isfinite(row["cpu_seconds"]) for row in times):
                raise ValueError("a time is not finite")
            return times
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.times} is damaged ({error!r}). Delete it: only the CPU time is lost.") from None

    def write_records(self, data: str, table: "Table", kind: str = "") -> Path:
        """Write the records of a data file, and its name and checksum into sources.json. Returns the path of the records.

        Records are named after their data file; for a second file of that name, its checksum is appended.

        kind: such as `blanks`; empty for the records of an evaluation.
        """
        from dgl_treestack.data import records

        sources = self._read_sources()
        checksum = sha256(find_data(data))
        name = Path(data.removeprefix(BUNDLED)).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
        if not name:
            raise DataError(f"{data} has no name that records could be filed under.")
        name = f"{name}-{kind}" if kind else name
        if sources.get(name, {}).get("sha256", checksum) != checksum:
            name = f"{name}-{checksum[:8]}"
        path = self.folder / "records" / f"{name}.parquet"
        records.write(path, table)
        source = {"data": data, "sha256": checksum} | ({"kind": kind} if kind else {})
        sources.setdefault(name, source)  # keeps the first name of the data, as in the configuration
        atomic.write_text(self.sources, json.dumps(sources, indent=1) + "\n")
        return path

    def read_records(self, data: str, kind: str = "") -> "Table":
        """Return the records of a data file, by its name in the configuration, or of a file with the same content.

        If several files had that name: the records of the current file, else the newest. Raises DataError if there are none.
        """
        return self._read(self._find_records(data, kind)[0])

    def checksum_of_records(self, data: str) -> str:
        """Return the SHA-256 of the file that the result of `read_records` is of. Raises DataError if there is none."""
        return self._find_records(data, "")[1]

    def _find_records(self, data: str, kind: str) -> tuple[str, str]:
        """Return name and checksum of the records of a data file, see `read_records`."""
        sources = {name: source for name, source in self._read_sources().items() if source.get("kind", "") == kind}
        name_of_checksum = {source["sha256"]: name for name, source in sources.items() if source["data"] == data}
        if len(name_of_checksum) != 1:  # the file may have another name here, or have changed since
            current = sha256(path) if (path := find_data(data)).is_file() else ""
            all_names = {source["sha256"]: name for name, source in sources.items()}
            if current in (name_of_checksum or all_names):
                return (name_of_checksum or all_names)[current], current
        if not name_of_checksum:
            raise DataError(
                f"The run has no records of {data}. Finish it with `treestack train ... --resume`, or evaluate it on the file.",
                self.folder,
            )
        *_, (checksum, name) = name_of_checksum.items()
        return name, checksum

    def has_records(self, data: str, kind: str = "") -> bool:
        """Return whether there are records of the current content of a data file."""
        key = (data, sha256(find_data(data)), kind)
        sources = self._read_sources().values()
        return any((source["data"], source["sha256"], source.get("kind", "")) == key for source in sources)

    def evaluated_data(self) -> list[str]:
        """Return the data files that a finished run was evaluated on, by training and by `treestack evaluate`."""
        return [source["data"] for source in self._read_sources().values() if "kind" not in source]

    def read_records_by_checksum(self, checksum: str) -> "Table | None":
        """Return the records of the data file with a SHA-256, under any name; None if there are none."""
        for name, source in self._read_sources().items():
            if source["sha256"] == checksum and "kind" not in source:
                return self._read(name)
        return None

    def _read(self, name: str) -> "Table":
        from dgl_treestack.data import records

        return records.read(self.folder / "records" / f"{name}.parquet")

    def _read_sources(self) -> dict[str, dict[str, str]]:
        """Return sources.json: name of records -> name, checksum and kind of their data."""
        sources = self.read_json("records/sources.json") if self.sources.exists() else {}
        is_whole = [
            isinstance(source, dict)
            and {"data", "sha256"} <= source.keys()
            and all(type(text) is str for text in source.values())
            for source in sources.values()
        ]
        if not all(is_whole):
            raise CheckpointError(f"{self.sources} is damaged. Delete the records folder and evaluate again.")
        return sources


def checked_metrics(rows: Any, *, of_trees: bool) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl. Raises ValueError, TypeError or KeyError unless they hold what tables read."""
    needed = {"train_accuracy", "validation_accuracy"} if of_trees else set[str]()
    for row in rows:
        if (
            type(row["epoch"]) is not int
            or not needed <= row.keys()
            or not all(type(value) in (int, float, NoneType) for value in row.values())
        ):
            raise ValueError(f"a row is {row!r:.200}")
    return list(rows)
