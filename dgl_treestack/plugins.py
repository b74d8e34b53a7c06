"""The registry: what names stand for, in this package, in a program that registers more, and in other installed packages."""

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from dgl_treestack.errors import ConfigurationError, unknown

logger = logging.getLogger(__name__)
faults: dict[str, str] = {}  # why an entry point was left out, by its description
Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Cells, encoders, tasks or languages by name.

    kind: the word for an entry in messages. files: those of this package, one an entry or a family of them. read: file -> what
    stands in it. entries: (name, what stands in a file or is named by an entry point) -> entries by name; raises
    ConfigurationError for what cannot be one. group: of entry points, empty for none.
    `registered` are the entries of a program by name. Where a name occurs several times, they come first, files next.
    """

    def __init__(
        self,
        kind: str,
        files: Iterable[Path],
        read: Callable[[Path], Any],
        entries: Callable[[str, Any], Mapping[str, Entry]],
        group: str = "",
    ):
        self.kind, self.files, self.read, self.entries, self.group = kind, sorted(files), read, entries, group
        self.registered: dict[str, Entry] = {}

    def table(self) -> dict[str, Entry]:
        """Return all entries by name."""
        return {**self.of_packages, **self.of_files, **self.registered}

    def find(self, name: str) -> Entry | None:
        """Return the entry of a name, or None."""
        return self.registered.get(name) or self.of_files.get(name) or self.of_packages.get(name)

    def __getitem__(self, name: str) -> Entry:
        """The entry of a name. Raises ConfigurationError, with the names there are, if there is none."""
        if (entry := self.find(name)) is None:
            raise ConfigurationError(unknown(self.kind, name, self.table()))
        return entry

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry of a program. Raises ConfigurationError when this package or the program has another one of this name.

        A name that an installed package adds may be used anew. This must not load entry points: a decorator that registers may
        run while the module of one is imported.
        """
        namesake = self.registered.get(name) or self.of_files.get(name)
        # Of classes the place of the definition counts, since a notebook may run one again.
        defined = [getattr(each, "cell", each) for each in (namesake, entry)]
        places = [(each.__module__, each.__qualname__) if isinstance(each, type) else each for each in defined]
        if namesake is not None and places[0] != places[1]:
            raise ConfigurationError(f"There is another {self.kind} {name!r}. Choose another name.")
        self.registered[name] = entry

    @cached_property
    def of_files(self) -> dict[str, Entry]:
        """The entries of this package."""
        tables = [self.entries(path.stem, self.read(path)) for path in self.files if not path.name.startswith("_")]
        return {name: entry for table in tables for name, entry in table.items()}

    @cached_property
    def of_packages(self) -> dict[str, Entry]:
        """The entries of other installed packages.

        An entry point that cannot be loaded, or names what cannot be an entry, is left out with a warning, and stands in
        `faults`: other names keep working.
        """
        from importlib.metadata import entry_points  # reads mail headers, and commands wait for that

        table: dict[str, Entry] = {}
        for entry_point in entry_points(group=self.group) if self.group else ():
            try:
                table.update(self.entries(entry_point.name, entry_point.load()))
            except Exception as error:  # the module of somebody else can raise anything
                package = entry_point.dist.name if entry_point.dist else "unknown"
                description = f"{entry_point.name} = {entry_point.value!r} of the package {package}, group {self.group}"
                if description not in faults:
                    logger.warning("The entry point %s is left out: %s: %s", description, type(error).__name__, error)
                faults[description] = f"{type(error).__name__}: {error}"
        return table


def read_module(path: Path) -> Any:
    """Return what a module of this package adds to a registry: its `MODELS` or its `TASK`."""
    module = importlib.import_module(f"dgl_treestack.{path.parent.name}.{path.stem}")
    return getattr(module, "MODELS", None) or module.TASK
