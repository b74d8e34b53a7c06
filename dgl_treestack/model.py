"""A model: a cell or an encoder, the vocabulary it reads leaves with, and the heads of its tasks."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack import cells, encoders
from dgl_treestack.dataset import Batch, Dataset
from dgl_treestack.encoders import Encoder
from dgl_treestack.errors import ConfigurationError, DataError, VocabularyError, unknown
from dgl_treestack.forest import Forest
from dgl_treestack.formats import Example
from dgl_treestack.operators import MATH, Signature
from dgl_treestack.propagate import compute, draw_noise
from dgl_treestack.source import Source
from dgl_treestack.tasks import NodeStates, Task, tasks
from dgl_treestack.vocabulary import Vocabulary

MASKS = ("node", "subtree")


class Model(nn.Module):
    """A cell, or an encoder, with the heads of its tasks; an example goes to the first task that accepts it.

    masks: dropout is drawn for every `node`, or for every distinct `subtree` of a batch, which can then be computed once.
    """

    def __init__(
        self,
        cell: cells.Cell | Encoder,
        heads: Sequence[Task],
        vocabulary: Vocabulary,
        signature: Signature = MATH,
        *,
        masks: str = "node",
    ):
        super().__init__()
        if masks not in MASKS:
            raise ConfigurationError(unknown("kind of dropout masks", masks, MASKS))
        self.masks = masks
        self.cell = cell
        self.heads = nn.ModuleDict({head.name: head for head in heads})
        self.vocabulary, self.signature = vocabulary, signature

    @classmethod
    def build(
        cls,
        name: str,
        hidden: int,
        vocabulary: Vocabulary,
        task_names: Sequence[str],
        signature: Signature = MATH,
        *,
        masks: str = "node",
        **cell: Any,
    ) -> "Model":
        """A model by the name of its cell and its tasks, parameters uninitialised. Raises ConfigurationError."""
        for task in task_names:
            if task not in tasks():
                raise ConfigurationError(unknown("task", task, tasks()))
        built = _build(name, hidden, vocabulary, signature, **cell)
        return cls(built, [tasks()[task](hidden) for task in task_names], vocabulary, signature, masks=masks)

    @property
    def tree_cell(self) -> cells.Cell:
        """The cell, for who needs states of nodes. Raises ConfigurationError for an encoder, which has none."""
        if isinstance(self.cell, Encoder):
            raise ConfigurationError("This needs a tree model: sequence and attention models have no states of nodes.")
        return self.cell

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values from a generator."""
        self.cell.reset_parameters(generator)
        for head in self._heads:
            head.reset_parameters(generator)

    @property
    def _heads(self) -> list[Task]:
        return list(self.heads.values())  # type: ignore[arg-type]

    def prepare(self, examples: Sequence[Example], task_name: str | None = None) -> Dataset:
        """Examples as data for this model, all for one task if it is named.

        Raises DataError when no task accepts an example, ConfigurationError when the model has no such task, VocabularyError
        for an unknown leaf.
        """
        if task_name is not None and task_name not in self.heads:
            raise ConfigurationError("The model was not made for it: " + unknown("task", task_name, self.heads))
        task = [self._route(example) if task_name is None else list(self.heads).index(task_name) for example in examples]
        items = [self._heads[i].prepare(example) for i, example in zip(task, examples, strict=True)]
        try:
            forest = Forest.build([item.tree for item in items], self.vocabulary, self.signature)
        except VocabularyError:
            self._blame(examples)
            raise
        if isinstance(self.cell, Encoder):
            self.cell.check(forest, [example.source for example in examples])
        return Dataset(
            examples,
            items,
            forest,
            np.array([item.target for item in items], dtype=np.float64),
            np.array(task, dtype=np.int64),
        )

    def _route(self, example: Example) -> int:
        for i, head in enumerate(self._heads):
            if head.accepts(example):
                return i
        tasks_of_model = ", ".join(self.heads)
        raise DataError(f"{example.equation} fits none of the model's tasks ({tasks_of_model}).", example.source or None)

    def _blame(self, examples: Sequence[Example]) -> None:
        """Raise the vocabulary's error for the first example that it cannot read, with file and line where known."""
        for example in examples:
            try:
                for _, kind, text in example.equation.leaves():
                    self.vocabulary.row(kind, text)
            except VocabularyError as error:
                raise DataError(str(error), example.source or None) from None

    def forward(
        self,
        batch: Batch,
        engine: str = "levels",
        signals: Sequence[str] = (),
        generator: torch.Generator | None = None,
        *,
        keep: bool = False,
    ) -> Tensor:
        """The output of every tree (B,). `generator` draws dropout masks in training.

        keep: leave the states on the graph, which is done in any case when there are signals. An encoder has none to leave.
        """
        return self.read(self._states(batch, engine, signals, generator, keep=keep), batch)

    def read(self, h: NodeStates, batch: Batch) -> Tensor:
        """The output of every tree (B,) from the states of nodes."""
        parts = [(chosen, head(h, batch.roots[chosen], batch.sides[chosen])) for head, chosen in self._parts(batch)]
        return _together(parts)

    def _states(
        self, batch: Batch, engine: str, signals: Sequence[str], generator: torch.Generator | None, *, keep: bool
    ) -> NodeStates:
        """h of nodes, as heads ask for it."""
        if isinstance(self.cell, Encoder):
            return _Encoded(self.cell, batch.source, self.signature, generator)
        source = batch.graph if engine == "topo" else batch.source
        per_subtree = self.masks == "subtree"
        noise = None
        if generator:
            noise = draw_noise(self.cell, source, generator, per_subtree=per_subtree, signature=self.signature)
        states = compute(
            source,
            self.cell,
            engine=engine,
            signature=self.signature,
            signals=signals,
            noise=noise,
            plans=batch.plans,
        )
        if keep or signals:
            states.put_on(batch.graph)
        return partial(states.of, "h")

    def _parts(self, batch: Batch) -> Iterator[tuple[Task, Any]]:
        """Every head that has examples in the batch, and which."""
        for i, head in enumerate(self._heads):
            if len(self.heads) == 1 or (batch.task == i).all():
                yield head, slice(None)
            elif (batch.task == i).any():
                yield head, torch.from_numpy(np.flatnonzero(batch.task == i))

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        """(B,) the loss of every output under its own task."""
        return self._per_task("loss", output, batch)

    def correct(self, output: Tensor, batch: Batch) -> Tensor:
        """(B,) 1 where an output is right, 0 where it is wrong."""
        return self._per_task("correct", output, batch)

    def _per_task(self, method: str, output: Tensor, batch: Batch) -> Tensor:
        targets = batch.targets.to(output)
        parts = self._parts(batch)
        return _together([(c, getattr(head, method)(output[c], targets[c]).to(output)) for head, c in parts])

    def record(self, dataset: Dataset, i: int, output: float) -> dict[str, Any]:
        """The task's part of the record of example i."""
        head = self._heads[dataset.task[i]]
        return {"task": head.name, **head.record(dataset.examples[i], dataset.items[i], output)}


def _build(name: str, hidden: int, vocabulary: Vocabulary, signature: Signature, **settings: Any) -> cells.Cell | Encoder:
    """What a model's name stands for. Raises ConfigurationError."""
    if name in encoders.encoders():
        share = settings.pop("share", "operator")
        if share != "operator":
            raise ConfigurationError(f"'share' is {share!r}; {name} has no weights per operator to share.")
        return encoders.build(name, len(vocabulary), len(signature.operators), hidden, **settings)
    if name not in cells.models():
        raise ConfigurationError(unknown("model", name, [*cells.models(), *encoders.encoders()]))
    return cells.build(name, signature.inner, len(vocabulary), hidden, **settings)


class _Encoded:
    """Vectors of nodes, from an encoder whose dropout is drawn from a generator."""

    def __init__(self, encoder: Encoder, source: Source, signature: Signature, generator: torch.Generator | None):
        self.encoder, self.source, self.signature, self.generator = encoder, source, signature, generator

    def __call__(self, nodes: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[], enabled=self.generator is not None):
            if self.generator is not None:
                torch.manual_seed(self.generator.initial_seed())
            found: Tensor = self.encoder(self.source, nodes, self.signature)
            return found


def _together(parts: Sequence[tuple[Any, Tensor]]) -> Tensor:
    """Values (b,) of parts of a batch as one (B,)."""
    if len(parts) == 1:
        return parts[0][1]
    result = parts[0][1].new_zeros(sum(len(chosen) for chosen, _ in parts))
    for chosen, value in parts:
        result = result.index_copy(0, chosen.to(value.device), value)
    return result
