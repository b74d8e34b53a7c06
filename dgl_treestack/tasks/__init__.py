"""Tasks, one file each: what is asked of an equation, the head that answers, the loss, what counts as right."""

import importlib
import pkgutil
from functools import cache

from dgl_treestack.tasks._task import Item as Item
from dgl_treestack.tasks._task import NodeStates as NodeStates
from dgl_treestack.tasks._task import Task as Task


@cache
def tasks() -> dict[str, type[Task]]:
    """Every task by name, from every file of this folder that defines `TASK`."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    return {module.TASK.name: module.TASK for module in modules if hasattr(module, "TASK")}
