"""Algorithmic tasks, one file each. A file defines `TASK`."""

import importlib
import pkgutil
from functools import cache

from dgl_treestack.algorithmic._task import Task


@cache
def tasks() -> dict[str, Task]:
    """Return all tasks by name, in the order of the papers' tables."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    ordered = sorted((module.TASK() for module in modules), key=lambda task: task.position)
    return {task.name: task for task in ordered}
