"""Tasks, one file each: what is asked of an equation, the head that answers, the loss, and what counts as right.

A task's file defines a class derived from `Task`, and `TASK`, that class. A task from elsewhere is added by `register_task`, or
by an entry point of the group `dgl_treestack.tasks` in its package, which names the class.
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
    """Return all tasks by name: those of the files of this folder, of installed packages, and the registered ones."""
    return {**_listed(), **_registered}


def register_task(task: type[Task]) -> type[Task]:
    """Decorate a task's class, so that models and configurations know it by its `name`.

    Raises ConfigurationError when another task has the name.
    """
    if not (isinstance(task, type) and issubclass(task, Task) and isinstance(getattr(task, "name", None), str)):
        raise ConfigurationError(f"What is registered is no class derived from dgl_treestack.Task with a name: {task!r}.")
    taken = tasks().get(task.name)
    # A class of the same name may be registered again: a notebook's cell is run more than once.
    if taken is not None and (taken.__module__, taken.__qualname__) != (task.__module__, task.__qualname__):
        raise ConfigurationError(f"The task {task.name!r} is that of {taken.__name__}. Take another name.")
    _registered[task.name] = task
    return task


@cache
def _listed() -> dict[str, type[Task]]:
    """Return the tasks of the files of this folder and of the entry points of installed packages."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    tasks_of_files = (module.TASK for module in modules if hasattr(module, "TASK"))
    tasks_of_packages = (entry_point.load() for entry_point in importlib.metadata.entry_points(group=GROUP))
    return {task.name: task for task in (*tasks_of_files, *tasks_of_packages)}
