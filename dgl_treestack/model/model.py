"""A model: a cell or an encoder, the vocabulary that encodes its leaves, and the heads of its tasks."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import dgl_treestack  # for the public name `Run`: runs are a layer above models
from dgl_treestack import cells
from dgl_treestack._dgl import DGLGraph
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.expression import Expression
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import MATH, Signature
from dgl_treestack.model.dataset import Batch, Dataset, prepare
from dgl_treestack.model.tree_dataset import TreeDataset
from dgl_treestack.plain_data import one_of
from dgl_treestack.propagate import ENGINES, compute, draw_noise, propagate
from dgl_treestack.sequence import encoders
from dgl_treestack.sequence.encoders import NO_ENCODER, Encoder
from dgl_treestack.tasks import Item, NodeStates, Task, build_heads, registry

if TYPE_CHECKING:
    from dgl_treestack.model.signals import NodeSignals

MASKS = ("node", "subtree")
SCORED_AT_ONCE = 256  # equations


class Model(nn.Module):
    """A cell, or an encoder, with the heads of its tasks; an example belongs to the first task that accepts it.

    masks: dropout is drawn per `node`, or per distinct `subtree` of a batch, so that equal subtrees are computed once.
    signals: losses at nodes, for training only.
    Attribute `arguments`: those of `build` but for vocabulary, signature and seed, for `save`.
    """

    def __init__(
        self,
        cell: cells.Cell | Encoder,
        heads: Sequence[Task],
        vocabulary: Vocabulary,
        signature: Signature = MATH,
        *,
        masks: str = "node",
        signals: "NodeSignals | None" = None,
    ):
        super().__init__()
        self.masks = one_of(MASKS, masks, "masks")
        self.cell = cell
        self.heads: Mapping[str, Task] = nn.ModuleDict({head.name: head for head in heads})  # type: ignore[assignment]
        self.signals = signals
        self.vocabulary, self.signature = vocabulary, signature
        self.arguments: dict[str, Any] = {}
        self.variables: tuple[str, ...] = ()

    @classmethod
    def build(
        cls,
        name: str | type[cells.Cell],
        hidden: int = 50,
        vocabulary: Vocabulary | str = "canonical",
        tasks: str | Sequence[str] = ("verification",),
        signature: Signature | str = MATH,
        *,
        masks: str = "node",
        class_weights: Mapping[str, float] | None = None,
        head_settings: Mapping[str, Mapping[str, Any]] | None = None,
        signals: Mapping[str, Any] | None = None,
        seed: int | None = None,
        **cell: Any,
    ) -> "Model":
        """Return a model by the name or the class of its cell, or the name of an encoder, and the names of its tasks.

        vocabulary: or the name of a preset. signature: or the name or file of a language. class_weights: of the loss, for
        classification. head_settings: arguments of the class of a task, by task. signals: settings of `NodeSignals`, None for
        none. seed: of the initial values; without it parameters are uninitialised until `reset_parameters` or
        `load_state_dict`. cell: dropout, share, input_size, vector_size, and the settings of the cell.
        Raises ConfigurationError, VocabularyError.

        >>> Model.build("tree_smu", hidden=20, stack_size=3, seed=0)  # doctest: +SKIP
        """
        tasks = (tasks,) if isinstance(tasks, str) else tuple(tasks)
        of_heads = {"tasks": tasks, "class_weights": class_weights, "head_settings": head_settings}
        arguments = {"name": name, "hidden": hidden, "masks": masks, "signals": signals, **of_heads, **cell}
        kinds = [registry[task] for task in tasks]
        vocabulary = Vocabulary.preset(vocabulary) if isinstance(vocabulary, str) else vocabulary
        signature = find(signature) if isinstance(signature, str) else signature
        module = _cell_or_encoder(name, len(vocabulary), signature, hidden, cell)
        slots = getattr(module, "slots", 1)
        heads = build_heads(kinds, hidden, signature, slots, head_settings, class_weights)
        losses = None
        if signals:
            from dgl_treestack.model.signals import NodeSignals  # here, since it loads FLINT: 0.2 s

            losses = NodeSignals(hidden, **{"slots": slots, **signals})
        model = cls(module, heads, vocabulary, signature, masks=masks, signals=losses)
        model.arguments = arguments
        if seed is not None:
            model.reset_parameters(torch.Generator().manual_seed(seed))
        return model

    @property
    def tree_cell(self) -> cells.Cell:
        """The cell of a model with node states. Raises ConfigurationError for an encoder, which has none."""
        if isinstance(self.cell, Encoder):
            raise ConfigurationError("This needs a tree model: sequence and attention models have no states of nodes.")
        return self.cell

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values from a generator."""
        for part in (self.cell, *self.heads.values(), *([] if self.signals is None else [self.signals])):
            part.reset_parameters(generator)

    def save(self, folder: Path | str, **data: Any) -> "dgl_treestack.Run":
        """Write the model as the folder of a run, NAME or NAME-SEED, which `load` and all commands read. Returns the run.

        data: keys of `[data]` of a configuration, for tables and figures, such as `train` and `max_depth`. A cell, task or
        language of your own must be registered, also where it is loaded. Raises ConfigurationError if the folder is not empty,
        CheckpointError for weights that are not finite, or not those that `build` has made.
        """
        return dgl_treestack.Run.of_model(Path(folder), self, data)

    def prepare(self, examples: Sequence[Example], task_name: str | None = None) -> Dataset:
        """Prepare examples for this model. task_name: the task of all of them, by default the first that accepts an example.

        Raises DataError if no task accepts an example, ConfigurationError for a task that the model does not have,
        VocabularyError for an unknown leaf.
        """
        dataset = prepare(examples, list(self.heads.values()), self.vocabulary, self.signature, task_name)
        forest = dataset.forest
        if isinstance(self.cell, Encoder) and (numbers := np.flatnonzero((forest.op < 0) & (forest.token < 0))).size:
            kind, text = forest.leaves[forest.leaf[numbers[0]]]
            source = examples[int(np.searchsorted(forest.offsets, numbers[0], side="right")) - 1].source
            raise DataError(f"{kind} {text} has no row in the vocabulary. {NO_ENCODER}", source or None)
        return dataset

    @torch.no_grad()
    def score(self, equations: str | Expression | Sequence[str | Expression], *, task: str | None = None) -> Tensor:
        """Return the model's outputs, (B,) or (B, K), for trees or their texts, in evaluation mode.

        For verification, sigmoid(score) is the probability that an equation holds. A text is in the notation of the signature.
        task: the task of all equations, by default the first that accepts each.
        Raises ExpressionError, VocabularyError, DataError, ConfigurationError.

        >>> model.score("sin(x)**2 + cos(x)**2 = 1").sigmoid()  # doctest: +SKIP
        """
        trees: list[Expression] = []
        for equation in [equations] if isinstance(equations, str | Expression) else equations:
            tree = Expression.parse(equation, self.signature) if isinstance(equation, str) else equation
            if tree.signature != self.signature:
                tree = Expression(tree.names, tree.texts, tree.arities, self.signature)
            names = self.known_names(tree)
            trees.append((tree.with_variables(names) if names else tree).recognised())
        dataset = self.prepare([Example(tree) for tree in trees], task)
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            device = next(self.parameters()).device
            outputs = [self(batch) for batch in dataset.in_order(np.arange(len(trees)), SCORED_AT_ONCE, device)]
        finally:
            for module, training in modes.items():
                module.training = training
        return torch.cat(outputs) if outputs else next(self.parameters()).new_zeros(0)

    def known_names(self, tree: Expression) -> dict[str, str]:
        """Return new names for the variables of a tree, from `variables`: whether an equation holds does not depend on names.

        Empty if they are known, and for more variables.
        """
        names = dict.fromkeys(text for _, kind, text in tree.leaves() if kind == "Symbol")
        if len(names) > len(self.variables) or set(names) <= set(self.variables):
            return {}
        return dict(zip(names, self.variables, strict=False))

    def states(self, graph: DGLGraph, *, signals: Sequence[str] | None = None, engine: str = "levels") -> Tensor:
        """Return the states h (N, H) of all nodes, and write them to the graph with the cell's other fields and its signals.

        signals: names of signals, by default all. See `dgl_treestack.propagate.propagate`.
        """
        names = list(self.tree_cell.signals) if signals is None else signals
        return propagate(graph, self.tree_cell, engine=engine, signature=self.signature, signals=names)

    def dataset(self, source: Any, **settings: Any) -> TreeDataset:
        """Return a `TreeDataset` with this model's vocabulary, tasks and signature. settings: its arguments."""
        common = {"vocabulary": self.vocabulary, "tasks": tuple(self.heads), "signature": self.signature}
        return TreeDataset(source, **{**common, **settings})

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
        """Return the outputs of all trees, (B,) or (B, K).

        batch: a batch of a data set, or a batched DGL graph with one tree per graph. engine, signals: see `propagate`; an
        encoder has no signals. generator: draws dropout masks in training, by default torch's global generator. keep: write the
        states to the graph, which signals imply. task: that of all trees of a DGL graph, required if the model has several.
        Raises GraphError for a graph that is not well formed, or whose trees the task cannot read, and ConfigurationError for
        an unknown engine, signal or task.
        """
        if not isinstance(batch, Batch):
            tokens = self.cell.leaves if isinstance(self.cell, Encoder) else self.cell.tokens
            batch = Batch.of_graph(batch, list(self.heads.values()), task, self.signature, tokens)
        return self.outputs(self.node_states(batch, engine, signals, generator, keep=keep), batch)

    def node_states(
        self,
        batch: Batch,
        engine: str = "levels",
        signals: Sequence[str] = (),
        generator: torch.Generator | None = None,
        *,
        keep: bool = False,
    ) -> NodeStates:
        """Return a function from indices of nodes of a batch (...) to their states h (..., H). Arguments as of `forward`."""
        fault = "" if engine in ENGINES else unknown("engine", engine, ENGINES)
        if signals and isinstance(self.cell, Encoder):
            fault = f"A sequence or attention model has no signals, such as {signals[0]!r}."
        if fault:
            raise ConfigurationError(fault)
        if isinstance(self.cell, Encoder):
            return partial(self.cell, batch.trees, signature=self.signature, generator=generator)
        source = batch.graph if engine == "topo" else batch.trees
        noise = None
        if self.training:
            per_subtree = self.masks == "subtree"
            generator = generator or torch.default_generator
            noise = draw_noise(self.cell, source, generator, per_subtree=per_subtree, signature=self.signature)
        states = compute(
            source, self.cell, engine=engine, signature=self.signature, signals=signals, noise=noise, plans=batch.plans
        )
        if keep or signals:
            states.put_on(batch.graph)
        return partial(states.of, "h")

    def outputs(self, h: NodeStates, batch: Batch) -> Tensor:
        """Return the outputs of all trees, (B,) or (B, K), from the states of their nodes."""
        return self._by_task("__call__", batch, h, batch.roots, batch.sides)

    def losses(self, output: Tensor, batch: Batch) -> Tensor:
        """Return the loss (B,) of every output under the task of its tree."""
        return self._by_task("loss", batch, output, batch.targets.to(output))

    def correct(self, output: Tensor, batch: Batch) -> Tensor:
        """Return 1 for a correct output, else 0 (B,)."""
        return self._by_task("correct", batch, output, batch.targets.to(output))

    def _by_task(self, method: str, batch: Batch, first: Any, *others: Tensor) -> Tensor:
        """Return what a method of the heads returns for all trees (B, ...). others: its arguments, with a row per tree.

        first: the states of nodes, or the outputs of trees for `loss` and `correct`, of which the last argument is the targets.
        Raises RuntimeError if one of these two does not return a number for each target.
        """
        result: Tensor | None = None
        for i, head in enumerate(self.heads.values()):
            is_of_head = batch.task == i
            is_only = len(self.heads) == 1 or is_of_head.all()
            if not (is_only or is_of_head.any()):
                continue
            trees = slice(None) if is_only else torch.from_numpy(np.flatnonzero(is_of_head))
            arguments = [of_all[trees] if isinstance(of_all, Tensor) else of_all for of_all in (first, *others)]
            values: Tensor = getattr(head, method)(*arguments)
            if isinstance(first, Tensor):
                if values.shape != arguments[-1].shape:  # a mean would train, and silently wrongly
                    raise RuntimeError(
                        f"{type(head).__name__}.{method} returned the shape {tuple(values.shape)} for outputs "
                        f"{tuple(arguments[0].shape)} and targets {tuple(arguments[-1].shape)}; it must return a number for "
                        "each target."
                    )
                values = values.to(first)
            if isinstance(trees, slice):
                return values
            result = values.new_zeros(len(batch.task), *values.shape[1:]) if result is None else result
            result = result.index_copy(0, trees.to(values.device, non_blocking=True), values)
        assert result is not None  # every tree is of one of the heads
        return result

    def record(self, example: Example, item: Item, task: int, output: float | list[float]) -> dict[str, Any]:
        """Return the columns that a task, by its index among the heads, adds to the record of an example."""
        head = list(self.heads.values())[task]
        return {"task": head.name, **head.record(example, item, output)}


def _cell_or_encoder(
    name: str | type[cells.Cell], leaves: int, signature: Signature, hidden: int, settings: dict[str, Any]
) -> cells.Cell | Encoder:
    """Return a cell by its name or class, or an encoder by its name, with these settings. leaves: rows of the vocabulary."""
    spec = cells.find(name) if isinstance(name, str) else name
    is_ours = isinstance(spec, cells.CellSpec) and spec.cell.__module__.startswith("dgl_treestack.")
    fault = ""
    if isinstance(name, str) and not is_ours and name in encoders.encoders():
        for key, default, lacking in (("share", "operator", "weights per operator"), ("vector_size", 0, "leaf encoder")):
            if (value := settings.pop(key, default)) != default:
                fault = f"{key!r} is {value!r}; {name} has no {lacking}. Use a tree model."
        if spec is not None:
            fault = f"{name!r} is the name of a registered cell and of a sequence or attention model. Rename the cell."
        if not fault:
            return encoders.build(name, leaves, len(signature.operators), hidden, **settings)
    elif spec is not None:
        return cells.build(name, signature.inner, leaves, hidden, **settings)
    names = () if fault else [*cells.models(), *encoders.encoders()]
    of_own = "A cell of your own is registered in this process, or installed with its package."
    raise ConfigurationError(fault or f"{unknown('model', str(name), names)} {of_own}")
