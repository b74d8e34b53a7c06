"""Trees as a DGL data set, for `dgl.dataloading.GraphDataLoader` and anything that takes a torch `Dataset`."""

import hashlib
import json
import logging
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from dgl_treestack import resources
from dgl_treestack._dgl import DGLDataset, DGLGraph, batch
from dgl_treestack.data import formats, graph
from dgl_treestack.data.forest import Forest
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, OutputError
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.model import stored_set
from dgl_treestack.model.dataset import Dataset, prepare
from dgl_treestack.processes import locked
from dgl_treestack.tasks import build_heads, registry

logger = logging.getLogger(__name__)
IGNORED = -100  # the default of torch's `ignore_index`
Sample = tuple[DGLGraph, Tensor]


class TreeDataset(DGLDataset):
    """Labelled trees. `dataset[i]` is (graph, target): a DGLGraph of one tree, and a number, NaN where the label is unknown.

    For a task at nodes, such as `node_classification`, the target is (nodes,), in the order of the graph's nodes. Targets are
    torch.float32; for classification they are indices of classes, torch.int64, and -100 where the label is unknown, which the
    cross entropy of torch ignores.

    source: a file of equations, or several, by path or by a name such as `bundled:quickstart/train`; or examples.
    vocabulary: or the name of a preset; `Model.dataset` passes the model's. signature: or the name or file of a language.
    tasks: every example is prepared for the first of them that accepts it; the examples of a batch must have one task.
    save_dir: folder of the cache, by default DGL's (`~/.dgl`, or DGL_DOWNLOAD_DIR); its columns are made anew when files,
    vocabulary, tasks or signature change. transform: applied to the graph of every sample.

    A graph is built when its sample is accessed. `collate`, for a loader's `collate_fn`, builds the graph of a batch at once:
    faster than `dgl.batch`, with the same nodes in the same order.
    Raises DataError for a file that cannot be read and an example that fits no task, VocabularyError for an unknown leaf.

    >>> data = TreeDataset("bundled:quickstart/train")  # doctest: +SKIP
    >>> loader = GraphDataLoader(data, batch_size=32, shuffle=True, collate_fn=data.collate)  # doctest: +SKIP
    """

    prepared: Dataset  # of one process in memory, of the next ones in files

    def __init__(
        self,
        source: str | Path | Sequence[str | Path] | Sequence[Example],
        *,
        vocabulary: Vocabulary | str = "canonical",
        tasks: str | Sequence[str] = ("verification",),
        signature: Signature | str = MATH,
        save_dir: str | Path | None = None,
        force_reload: bool = False,
        verbose: bool = False,
        transform: Any = None,
    ):
        self.tasks = (tasks,) if isinstance(tasks, str) else tuple(tasks)
        kinds = [registry[task] for task in self.tasks]
        self.at_nodes = any(task.at_nodes for task in kinds)  # whether targets are of nodes
        self.has_classes = all(task.has_classes for task in kinds)  # whether targets are indices of classes
        self.signature = find(signature) if isinstance(signature, str) else signature
        self.vocabulary = Vocabulary.preset(vocabulary) if isinstance(vocabulary, str) else vocabulary
        entries = list(source) if isinstance(source, Iterable) and not isinstance(source, str) else [source]
        self.files = [str(entry) for entry in entries if isinstance(entry, str | Path)]
        self._examples = [entry for entry in entries if isinstance(entry, Example)]
        fault = ""
        if len(self.files) + len(self._examples) != len(entries) or (self.files and self._examples):
            fault = "A TreeDataset is made of files, or of examples, not of both or anything else."
        elif len(self.tasks) > 1 and self.at_nodes:
            fault = "A task at nodes cannot be in a TreeDataset with other tasks. Make one of its own."
        if fault:
            raise ConfigurationError(fault)
        # No cache for examples, which are in memory, nor for a user's task, whose code may change.
        self._is_cached = bool(self.files) and all(task.is_ours() for task in kinds)
        self._made_from = stored_set.origin([self.fingerprint], self.vocabulary, self.signature, self.tasks)
        super().__init__(
            "treestack",
            save_dir=None if save_dir is None else str(save_dir),
            raw_dir=None if save_dir is None else str(save_dir),
            hash_key=json.dumps(self._made_from),
            force_reload=force_reload,
            verbose=verbose,
            transform=transform,
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the contents of the files, or of the examples."""
        checksums = [resources.sha256(resources.find_data(name)) for name in self.files]
        lines = [json.dumps(formats.to_dict(example)) for example in self._examples]
        return hashlib.sha256("\n".join([*checksums, *lines]).encode()).hexdigest()

    def process(self) -> None:
        """Prepare the examples of the files."""
        heads = build_heads([registry[task] for task in self.tasks], 1, self.signature)
        self.prepared = prepare(self.examples, heads, self.vocabulary, self.signature)

    def _download(self) -> None:
        """Do nothing: DGL's method creates folders even if nothing is cached."""

    @property
    def _folder(self) -> Path:
        return Path(self.save_path) / self.hash

    def has_cache(self) -> bool:
        """Whether there are columns in the cache to load."""
        return self._is_cached and (self._folder / stored_set.MANIFEST).is_file()

    def save(self) -> None:
        """Write the columns to the cache, except those of examples or of a user's task."""
        if not self._is_cached or not len(self):
            return
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._folder.parent):  # processes of one run make the same set at once
                stored_set.write(self._folder, [(self.forest, self.prepared)], self._made_from)
        except (OSError, OutputError) as error:
            logger.warning("The columns of %s are not kept: %s", ", ".join(self.files), error)

    def load(self) -> None:
        """Open the columns in the cache. Raises an error for damaged or other ones; DGL then calls `process`."""
        self.prepared = stored_set.read(self._folder, self._made_from, self.vocabulary, self.signature)

    def __len__(self) -> int:
        return len(self.forest)

    def __getitem__(self, i: int | Tensor) -> Sample:
        index = operator.index(i)
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no tree {index} among {len(self)}.")
        index %= len(self)
        tree, targets = graph.build(self.forest, [index]), self.targets_of([index])
        return (tree if self._transform is None else self._transform(tree)), targets if self.at_nodes else targets[0]

    def __getitems__(self, indices: Sequence[int | Tensor]) -> Subset[Sample]:
        """Return the samples of a batch, as a loader asks for them; a graph is built when its sample is accessed."""
        return Subset(self, [int(index) for index in indices])

    @staticmethod
    def collate(samples: Iterable[Sample] | Subset[Sample]) -> Sample:
        """Return one batched graph, and the targets (B,), or (nodes,) for a task at nodes."""
        if isinstance(samples, Subset) and isinstance(samples.dataset, TreeDataset) and samples.dataset._transform is None:
            dataset, indices = samples.dataset, [i % len(samples.dataset) for i in samples.indices]
            return graph.build(dataset.forest, indices), dataset.targets_of(indices)  # 30 times as fast as `dgl.batch`
        graphs, targets = zip(*samples, strict=True)  # type: ignore[misc]  # a `Subset` can be iterated over
        return batch(list(graphs)), torch.cat([target.reshape(-1) for target in targets])

    @property
    def forest(self) -> Forest:
        """The trees as columns."""
        return self.prepared.forest

    @cached_property
    def targets(self) -> np.ndarray:
        """(len,) targets, or those of all nodes for a task at nodes; NaN where unknown."""
        if not self.at_nodes:
            return self.prepared.targets
        targets = np.full(len(self.forest.nodes), np.nan)
        start_of_tree_of_output = np.repeat(self.forest.offsets[:-1], np.diff(self.prepared.offsets))
        targets[start_of_tree_of_output + self.prepared.nodes] = self.prepared.targets
        return targets

    def targets_of(self, trees: Sequence[int]) -> Tensor:
        """Return the targets of the trees at these indices, or of all their nodes."""
        if self.at_nodes:
            offsets = self.forest.offsets
            targets = np.concatenate([self.targets[offsets[i] : offsets[i + 1]] for i in trees])
        else:
            targets = self.targets[trees]
        if self.has_classes:
            return torch.from_numpy(np.nan_to_num(targets, nan=IGNORED).astype(np.int64))
        return torch.from_numpy(targets).float()

    @property
    def depths(self) -> np.ndarray:
        """(len,) depth of every tree."""
        return self.forest.depths

    @cached_property
    def examples(self) -> list[Example]:
        """The examples that were passed, or those of the files, read at the first access. `Training` needs them."""
        return self._examples or [
            example for name in self.files for example in formats.read(resources.find_data(name), self.signature)
        ]
