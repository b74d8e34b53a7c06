"""Tasks, one file each: what a model predicts for a tree or its nodes, the head, the loss, and when an output is correct.

A task's file defines a class derived from `Task`, and `TASK`, that class. Other tasks are added by `register_task`, or by an
entry point of the group `dgl_treestack.tasks` in their package, which names the class.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dgl_treestack.cells import draw_linear
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.expression import Equation, Expression
from dgl_treestack.expression.operators import Signature
from dgl_treestack.plain_data import settings_of
from dgl_treestack.resources import Registry, read_module

# The states h of nodes, by their indices in the batch: (...) -> (..., H).
NodeStates = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Item:
    """The input of a model for one example: a tree, and the target of the output for it (NaN if unknown).

    With a mapping, node -> target, there is an output for each of these nodes instead of one for the root.
    """

    tree: Expression
    target: float | Mapping[int, float]


class Task(nn.Module, abc.ABC):
    """Base of all tasks: a head over node states, its loss, and when an output is correct. `hidden` is the width H of h.

    `name` is the task's name in configurations. In a model with several tasks, an example belongs to the first that accepts it.
    `compares_sides`: whether trees must be equations, because `forward` reads the two sides of the root. `at_nodes`: whether
    items have targets at nodes, and a graph has an output for each of its nodes. `has_classes`: whether targets are indices of
    classes of the language. `has_numbers`: whether labels are numbers. Keyword-only arguments of the class are its settings.
    Outputs are one number per tree (B,), or a row of them (B, K); for a task at nodes, B is the number of these nodes.
    `selects_by_loss`: whether the best epoch is that of the smallest validation loss, not of the highest accuracy.
    A subclass defines `forward`, `loss` and `correct`, and the other methods where the defaults do not fit.
    """

    name: ClassVar[str]
    compares_sides: ClassVar[bool] = False
    at_nodes: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    has_numbers: ClassVar[bool] = False
    selects_by_loss: ClassVar[bool] = False

    @classmethod
    def is_ours(cls) -> bool:
        """Return whether the task is one of this package: what it prepares is the same as long as the package is."""
        return cls.__module__.startswith("dgl_treestack.")

    def accepts(self, example: Example) -> bool:
        """Whether the example belongs to this task: by default an equation if it compares sides, else any other tree."""
        return isinstance(example.equation, Equation) == self.compares_sides

    def prepare(self, example: Example) -> Item:
        """Return the tree to propagate and the target: by default the whole tree and its label."""
        if isinstance(example.label, str):
            raise DataError(
                f"The label {example.label!r} is the name of a class, and the task {self.name!r} needs numbers. Define its "
                '`prepare`, or give the language classes = "numbers".',
                example.source or None,
            )
        return Item(example.equation, float("nan") if example.label is None else float(example.label))

    @abc.abstractmethod
    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        """Return the outputs of the trees, (B,) or (B, K).

        roots: (B,) their roots, or other nodes that items have targets for. sides: (B, 2) the first two children of these
        nodes, -1 where there are none.
        """

    @abc.abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of every tree (B,). target: (B,), NaN where unknown, and so is the loss."""

    @abc.abstractmethod
    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        """Return whether the output of each tree is correct (B,)."""

    def record(self, example: Example, item: Item, output: float | list[float]) -> dict[str, Any]:
        """Return the columns that the task adds to an example's record: by default `score`, the output."""
        return {"score": output}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values of linear layers by `draw_linear`. A task with other parameters must set those."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                draw_linear(module.weight, module.bias, generator)


def _by_name(_: str, task: Any) -> dict[str, type[Task]]:
    """Return a task's class by its name. Raises ConfigurationError unless it is a class of tasks with a name."""
    if not (isinstance(task, type) and issubclass(task, Task) and isinstance(getattr(task, "name", None), str)):
        raise ConfigurationError(f"The task is no class derived from dgl_treestack.Task with a name: {task!r}.")
    return {task.name: task}


registry: Registry[type[Task]] = Registry(
    "task", Path(__file__).parent.glob("*.py"), read_module, _by_name, "dgl_treestack.tasks"
)
tasks = registry.table


def build_heads(
    kinds: Sequence[type[Task]],
    hidden: int,
    language: Signature,
    slots: int = 1,
    settings_of_task: Mapping[str, Mapping[str, Any]] | None = None,
    class_weights: Mapping[str, float] | None = None,
) -> list[Task]:
    """Return the heads of a model. Raises ConfigurationError for a task that does not fit the language, and wrong settings.

    slots, class_weights, and the classes of the language are for those that have such settings.
    """
    settings_of_task, heads, names = settings_of_task or {}, [], [kind.name for kind in kinds]
    faults = [f"Settings of a head: {unknown('task', name, names)}" for name in settings_of_task if name not in names]
    for kind in kinds:
        settings, allowed = settings_of_task.get(kind.name, {}), settings_of(kind)
        faults += [
            f"Task {kind.name!r}: {unknown('setting of the head', key, allowed)}" for key in settings if key not in allowed
        ]
        if class_weights and "class_weights" not in allowed:
            faults.append(f"The task {kind.name!r} has no classes that 'model.class_weights' could weigh.")
        if kind.has_classes and not language.classes:
            faults.append(f"The language {language.name!r} has no classes, which the task {kind.name!r} predicts.")
        if kind.has_numbers and not language.numeric:
            no_numbers = f"The labels of the language {language.name!r} are no numbers, as {kind.name!r} needs them"
            faults.append(f'{no_numbers}: classes = "numbers".')
        if faults:
            raise ConfigurationError(faults[0])
        common = {"slots": slots, "class_weights": class_weights, "classes": language.classes}
        heads.append(kind(hidden, **{name: value for name, value in {**common, **settings}.items() if name in allowed}))
    return heads


def register_task(task: type[Task]) -> type[Task]:
    """Decorate a task's class, so that models and configurations know it by its `name`.

    Raises ConfigurationError when another task has the name; a name that an installed package adds may be used anew.
    """
    for name in _by_name("", task):
        registry.register(name, task)
    return task
