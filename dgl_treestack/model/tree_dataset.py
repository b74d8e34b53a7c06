"""Trees as a DGL data set: for `dgl.dataloading.GraphDataLoader`, and for everything else that takes a torch `Dataset`."""

import hashlib
import json
import logging
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch
from torch import Tensor

from dgl_treestack import atomic, resources
from dgl_treestack._dgl import DGLDataset, DGLGraph, batch
from dgl_treestack.data import formats, graph
from dgl_treestack.data.forest import COLUMNS, NODE, Forest
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError, OutputError, unknown
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.model.dataset import prepare
from dgl_treestack.tasks import tasks as task_table

logger = logging.getLogger(__name__)
FORMAT = 1  # of the cached file
Sample = tuple[DGLGraph, Tensor]


class TreeDataset(DGLDataset):
    """Labelled trees. `dataset[i]` is (graph, target): a DGLGraph of one tree, and a number, NaN where the label is unknown.

    source: a file of equations, or several, by path or by a name such as `bundled:quickstart/train`; or examples.
    vocabulary: or the name of a preset; `Model.dataset` takes the model's. tasks: every example is prepared for the first of
    them that accepts it; a model takes batches of one task.
    save_dir: where files are kept in the form that is quick to load, DGL's own folder (`~/.dgl`, or DGL_DOWNLOAD_DIR) when it
    is not given; what is kept is made anew when files, vocabulary, tasks or signature change. transform: of a sample's graph.

    Graphs are made when they are asked for. `collate`, for a loader's `collate_fn`, makes the graph of a batch at once, which
    is quicker than `dgl.batch` of its graphs, and has the same nodes in the same order.
    Raises DataError for a file that cannot be read and an example that fits no task, VocabularyError for an unknown leaf.

    >>> data = TreeDataset("bundled:quickstart/train")  # doctest: +SKIP
    >>> loader = GraphDataLoader(data, batch_size=32, shuffle=True, collate_fn=data.collate)  # doctest: +SKIP
    """

    forest: Forest
    targets: np.ndarray
    task: np.ndarray

    def __init__(
        self,
        source: str | Path | Sequence[str | Path] | Sequence[Example],
        *,
        vocabulary: Vocabulary | str = "canonical",
        tasks: str | Sequence[str] = ("verification",),
        signature: Signature = MATH,
        save_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Any = None,
    ):
        tasks = (tasks,) if isinstance(tasks, str) else tasks
        for task in tasks:
            if task not in task_table():
                raise ConfigurationError(unknown("task", task, task_table()))
        self.signature, self.tasks = signature, tuple(tasks)
        self.vocabulary = Vocabulary.preset(vocabulary) if isinstance(vocabulary, str) else vocabulary
        several = list(source) if isinstance(source, Iterable) and not isinstance(source, str) else [source]
        self.files = [str(one) for one in several if isinstance(one, str | Path)]
        self._given = [one for one in several if isinstance(one, Example)]
        if len(self.files) + len(self._given) != len(several) or (self.files and self._given):
            raise ConfigurationError("A TreeDataset is made of files, or of examples, not of both or anything else.")
        self._key = self._description()
        super().__init__(
            "treestack",
            save_dir=None if save_dir is None else str(save_dir),
            raw_dir=None if save_dir is None else str(save_dir),
            hash_key=self._key,
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    def _description(self) -> str:
        """What the columns depend on, as text."""
        operators = [(one.name, one.arity) for one in self.signature.operators]
        settings = [FORMAT, self.vocabulary.to_dict(), self.signature.name, operators, self.signature.root, self.tasks]
        return json.dumps([self.fingerprint, *settings])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what the trees were made of."""
        checksums = [resources.sha256(resources.find_data(name)) for name in self.files]
        written = [json.dumps(formats.to_dict(example)) for example in self._given]
        return hashlib.sha256("\n".join([*checksums, *written]).encode()).hexdigest()

    # What DGL calls

    def process(self) -> None:
        heads = [task_table()[name](1) for name in self.tasks]
        prepared = prepare(self.examples, heads, self.vocabulary, self.signature)
        self.forest, self.targets, self.task = prepared.forest, prepared.targets, prepared.task

    def _download(self) -> None:
        """Nothing: DGL's own makes folders, even where nothing is to be kept."""

    @property
    def _is_kept(self) -> bool:
        """Examples are here already, and what tasks of somebody's own prepare may change with their code."""
        return bool(self.files) and all(task_table()[name].__module__.startswith("dgl_treestack.") for name in self.tasks)

    def has_cache(self) -> bool:
        return self._is_kept and self._path.is_file()

    def save(self) -> None:
        if not self._is_kept:
            return
        columns = {name: np.ascontiguousarray(self.forest.nodes[name]) for name in COLUMNS}
        arrays = {**columns, "offsets": self.forest.offsets, "targets": self.targets, "task": self.task}
        described = {"key": self._key, "leaves": json.dumps(self.forest.leaves), "sha256": _checksum(arrays)}
        try:
            atomic.write_bytes(self._path, safetensors.numpy.save(arrays, described))
        except OutputError as error:
            logger.warning("The columns of %s are not kept: %s", ", ".join(self.files), error)

    def load(self) -> None:
        """Raises DataError for a file that is not of these equations, after which DGL calls `process`."""
        with safetensors.safe_open(self._path, framework="numpy") as file:
            described = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if described.get("key") != self._key or described.get("sha256") != _checksum(arrays):
            raise DataError("It was made of other equations, or is damaged.", self._path)
        nodes = np.empty(len(arrays["op"]), dtype=NODE)
        for name in COLUMNS:
            nodes[name] = arrays[name]
        leaves = tuple((str(kind), str(text)) for kind, text in json.loads(described["leaves"]))
        self.forest = Forest(self.signature, leaves, nodes, arrays["offsets"])
        self.targets, self.task = arrays["targets"], arrays["task"]

    @property
    def _path(self) -> Path:
        return Path(self.save_path) / f"{self.hash}.safetensors"

    # Samples

    def __len__(self) -> int:
        return len(self.forest)

    def __getitem__(self, i: int | Tensor) -> Sample:
        place = operator.index(i)
        if not -len(self) <= place < len(self):
            raise IndexError(f"There is no tree {place} among {len(self)}.")
        sample: Sample = Samples(self, [place % len(self)])[0]
        return sample

    def __getitems__(self, places: Sequence[int | Tensor]) -> "Samples":
        """What a loader asks for a batch: samples that are made one by one, or as one graph by `collate`."""
        return Samples(self, [int(place) for place in places])

    @staticmethod
    def collate(samples: "Sequence[Sample] | Samples") -> Sample:
        """(graph, targets): one batched graph, and the targets (B,) as torch.float32."""
        if isinstance(samples, Samples):
            return samples.as_batch()
        graphs, targets = zip(*samples, strict=True)
        return batch(list(graphs)), torch.stack(targets)

    @property
    def depths(self) -> np.ndarray:
        """(len,) depth of every tree."""
        return self.forest.depths

    @cached_property
    def examples(self) -> list[Example]:
        """What is known of every tree, read again where the columns came from a kept file. The package's loop takes these."""
        return self._given or [
            example for name in self.files for example in formats.read(resources.find_data(name), self.signature)
        ]


class Samples(Sequence[Sample]):
    """Some trees of a data set, whose graphs are made when they are asked for."""

    def __init__(self, dataset: TreeDataset, places: Sequence[int]):
        self.dataset, self.places = dataset, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return Samples(self.dataset, self.places[i])
        return self._transformed(graph.build(self.dataset.forest, [self.places[i]])), self._targets([self.places[i]])[0]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def as_batch(self) -> Sample:
        """All of them as one graph, with their targets (B,)."""
        if self.dataset._transform is not None:
            graphs, targets = zip(*self, strict=True)
            return batch(list(graphs)), torch.stack(targets)
        return graph.build(self.dataset.forest, self.places), self._targets(self.places)

    def _targets(self, places: Sequence[int]) -> Tensor:
        return torch.from_numpy(self.dataset.targets[places]).float()

    def _transformed(self, made: DGLGraph) -> DGLGraph:
        transform = self.dataset._transform
        return made if transform is None else transform(made)


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()
