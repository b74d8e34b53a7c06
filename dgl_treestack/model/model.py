"""A model: a cell or an encoder, the vocabulary it reads leaves with, and the heads of its tasks."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dgl_treestack import cells, encoders
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.columns import Source
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.encoders import Encoder
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.model.dataset import Batch, Dataset, prepare
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.propagate import ENGINES, compute, draw_noise, propagate
from dgl_treestack.tasks import NodeStates, Task
from dgl_treestack.tasks import tasks as task_table

MASKS = ("node", "subtree")
SCORED_AT_ONCE = 256  # equations


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
        name: str | type[cells.Cell],
        hidden: int = 50,
        vocabulary: Vocabulary | str = "canonical",
        tasks: str | Sequence[str] = ("verification",),
        signature: Signature = MATH,
        *,
        masks: str = "node",
        seed: int | None = None,
        **cell: Any,
    ) -> "Model":
        """A model by the name or the class of its cell and the names of its tasks.

        vocabulary: or the name of a preset. seed: of the initial values; without it parameters are uninitialised, to be filled
        by `reset_parameters` or `load_state_dict`. cell: dropout, share, input_size, and the settings of the cell.
        Raises ConfigurationError, VocabularyError.

        >>> Model.build("tree_smu", hidden=20, stack_size=3, seed=0)  # doctest: +SKIP
        """
        tasks = (tasks,) if isinstance(tasks, str) else tasks
        for task in tasks:
            if task not in task_table():
                raise ConfigurationError(unknown("task", task, task_table()))
        vocabulary = Vocabulary.preset(vocabulary) if isinstance(vocabulary, str) else vocabulary
        reader = _build(name, hidden, vocabulary, signature, **cell)
        model = cls(reader, [task_table()[task](hidden) for task in tasks], vocabulary, signature, masks=masks)
        if seed is not None:
            model.reset_parameters(torch.Generator().manual_seed(seed))
        return model

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
        dataset = prepare(examples, self._heads, self.vocabulary, self.signature, task_name)
        if isinstance(self.cell, Encoder):
            self.cell.check(dataset.forest, [example.source for example in examples])
        return dataset

    # Python first: what a person asks of a model

    @torch.no_grad()
    def score(self, equations: str | Expression | Sequence[str | Expression], *, task: str | None = None) -> Tensor:
        """(B,) the model's outputs for equations or their texts, in evaluation mode: for verification, sigmoid(score) is the
        probability that an equation holds.

        task: where the model has several. Raises ExpressionError, VocabularyError, DataError, ConfigurationError.

        >>> model.score("sin(x)**2 + cos(x)**2 = 1").sigmoid()  # doctest: +SKIP
        """
        several = [equations] if isinstance(equations, str | Expression) else equations
        trees = [self._read(one) if isinstance(one, str) else one for one in several]
        dataset = self.prepare([Example(tree) for tree in trees], task)
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            device = next(self.parameters()).device
            outputs = [self(batch) for batch in dataset.in_order(np.arange(len(dataset)), SCORED_AT_ONCE, device)]
        finally:
            for module, training in modes.items():
                module.training = training
        return torch.cat(outputs) if outputs else next(self.parameters()).new_zeros(0)

    def states(self, graph: DGLGraph, *, signals: Sequence[str] | None = None, engine: str = "levels") -> Tensor:
        """(N, H) the states h of all nodes, left on the graph with the cell's other fields and its signals: all of them, or
        those named. See `dgl_treestack.propagate.propagate`."""
        names = list(self.tree_cell.signals) if signals is None else signals
        return propagate(graph, self.tree_cell, engine=engine, signature=self.signature, signals=names)

    def dataset(self, source: Any, **settings: Any) -> TreeDataset:
        """A `TreeDataset` with this model's vocabulary, tasks and signature. settings: of the data set, such as save_dir."""
        common = {"vocabulary": self.vocabulary, "tasks": tuple(self.heads), "signature": self.signature}
        return TreeDataset(source, **{**common, **settings})

    def _read(self, text: str) -> Expression:
        """An equation in infix; of another signature than the papers' a tree in prefix form."""
        if self.signature.name == MATH.name:
            return Equation.parse(text)
        is_equation = text.split()[:1] == [self.signature.root]
        return (Equation if is_equation else Expression).from_prefix(text, self.signature)

    def forward(
        self,
        batch: Batch | DGLGraph,
        engine: str = "levels",
        signals: Sequence[str] = (),
        generator: torch.Generator | None = None,
        *,
        keep: bool = False,
        task: str | None = None,
    ) -> Tensor:
        """The output of every tree (B,). `generator` draws dropout masks in training; without it torch's own does.

        batch: of a `Dataset`, or any DGL graph of one tree per graph of the batch, all for one task, named where the model has
        several. keep: leave the states on the graph, which is done in any case when there are signals. An encoder has none.
        Raises GraphError for a graph that is not well formed, or not what the task asks for.
        """
        if not isinstance(batch, Batch):
            tokens = self.cell.leaves if isinstance(self.cell, Encoder) else self.cell.tokens
            batch = Batch.of_graph(batch, self._heads, task, self.signature, tokens)
        return self.read(self._states(batch, engine, signals, generator, keep=keep), batch)

    def read(self, h: NodeStates, batch: Batch) -> Tensor:
        """The output of every tree (B,) from the states of nodes."""
        parts = [(chosen, head(h, batch.roots[chosen], batch.sides[chosen])) for head, chosen in self._parts(batch)]
        return _together(parts)

    def _states(
        self, batch: Batch, engine: str, signals: Sequence[str], generator: torch.Generator | None, *, keep: bool
    ) -> NodeStates:
        """h of nodes, as heads ask for it."""
        if engine not in ENGINES:
            raise ConfigurationError(unknown("engine", engine, ENGINES))
        if isinstance(self.cell, Encoder):
            if signals:
                raise ConfigurationError(f"A sequence or attention model has no signals, such as {signals[0]!r}.")
            return _Encoded(self.cell, batch.source, self.signature, generator)
        source = batch.graph if engine == "topo" else batch.source
        per_subtree = self.masks == "subtree"
        noise = None
        if self.training:
            generator = generator or torch.default_generator
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


def _build(
    name: str | type[cells.Cell], hidden: int, vocabulary: Vocabulary, signature: Signature, **settings: Any
) -> cells.Cell | Encoder:
    """What a model's name or class stands for. Raises ConfigurationError."""
    cell = cells.find(name) if isinstance(name, str) else name
    if isinstance(name, str) and name in encoders.encoders():
        if cell is not None:
            raise ConfigurationError(f"{name!r} names a cell that was registered and a sequence or attention model. Rename it.")
        share = settings.pop("share", "operator")
        if share != "operator":
            raise ConfigurationError(f"'share' is {share!r}; {name} has no weights per operator to share.")
        return encoders.build(name, len(vocabulary), len(signature.operators), hidden, **settings)
    if cell is None:
        raise ConfigurationError(unknown("model", str(name), [*cells.models(), *encoders.encoders()]))
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
