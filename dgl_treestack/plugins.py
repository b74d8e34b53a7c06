"""What installed packages add, by their entry points: cells, tasks, languages."""

import importlib.metadata
import logging
from collections.abc import Callable, Iterator
from typing import Any

logger = logging.getLogger(__name__)
faults: dict[str, str] = {}  # why an entry point was left out, by its description


def load(group: str, check: Callable[[str, Any], None]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of every entry point of a group.

    check: called with both; raises ConfigurationError for an object that the group cannot have. An entry point that cannot be
    loaded, or is refused by `check`, is left out with a warning, and stands in `faults`: other names keep working.

    Registration by a decorator must not call this: the decorator may run while the module of an entry point is imported.
    """
    for entry_point in importlib.metadata.entry_points(group=group):
        try:
            target = entry_point.load()
            check(entry_point.name, target)
        except Exception as error:  # the module of somebody else can raise anything
            package = entry_point.dist.name if entry_point.dist else "unknown"
            description = f"{entry_point.name} = {entry_point.value!r} of the package {package}, group {group}"
            if description not in faults:
                logger.warning("The entry point %s is left out: %s: %s", description, type(error).__name__, error)
            faults[description] = f"{type(error).__name__}: {error}"
            continue
        yield entry_point.name, target
