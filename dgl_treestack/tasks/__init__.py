"""Tasks, one file each: what is asked of an equation, the head that answers, the loss, what counts as right.

A task of somebody else's is added by `register_task`, or by an entry point of the group `dgl_treestack.tasks`, its class.
"""

import importlib
import importlib.metadata
import pkgutil
from functools import cache

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.tasks._task import Item as Item
from dgl_treestack.tasks._task import NodeStates as NodeStates
from dgl_treestack.tasks._task import Task as Task

GROUP = "dgl_treestack.tasks"  # of entry points
_registered: dict[str, type[Task]] = {}


def tasks() -> dict[str, type[Task]]:
    """Every task by name: from every file of this folder that defines `TASK`, from entry points, and what was registered."""
    return {**_listed(), **_registered}


def register_task(task: type[Task]) -> type[Task]:
    """Decorate a task's class, so that models and configurations know it by its `name`.

    Raises ConfigurationError when the name is that of another task.
    """
    if not (isinstance(task, type) and issubclass(task, Task) and isinstance(getattr(task, "name", None), str)):
        raise ConfigurationError(f"What is registered is no class derived from dgl_treestack.Task with a name: {task!r}.")
    taken = tasks().get(task.name)
    if taken is not None and (taken.__module__, taken.__qualname__) != (task.__module__, task.__qualname__):
        raise ConfigurationError(f"The task {task.name!r} is that of {taken.__name__}. Take another name.")
    _registered[task.name] = task
    return task


@cache
def _listed() -> dict[str, type[Task]]:
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    table = {module.TASK.name: module.TASK for module in modules if hasattr(module, "TASK")}
    return table | {(task := entry_point.load()).name: task for entry_point in importlib.metadata.entry_points(group=GROUP)}
