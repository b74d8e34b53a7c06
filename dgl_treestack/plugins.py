"""The registry: what names stand for, in this package, in a program that registers more, and in other installed packages."""

import importlib
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from dgl_treestack.errors import ConfigurationError

logger = logging.getLogger(__name__)
faults: dict[str, str] = {}  # why an entry point was left out, by its description
Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Cells, encoders, tasks or languages by name.

    kind: the word for an entry in messages. folder: of the files of this package, one an entry or a family of them.
    read: file -> what stands in it. entries: (name, what stands in a file or is named by an entry point) -> entries by name;
    raises ConfigurationError for what cannot be one. group: of entry points, empty for none.

    `registered` are the entries of a program by name. Where a name occurs several times, they come first, files next.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        read: Callable[[Path], Any],
        entries: Callable[[str, Any], Mapping[str, Entry]],
        group: str = "",
    ):
        self.kind, self.read, self.entries, self.group = kind, read, entries, group
        paths = (path for path in folder.iterdir() if path.suffix in (".py", ".toml") and not path.name.startswith("_"))
        self.files = {path.stem: path for path in sorted(paths)}
        self.registered: dict[str, Entry] = {}
        self._of_file: dict[str, Mapping[str, Entry]] = {}

    def table(self) -> dict[str, Entry]:
        """Return all entries by name."""
        of_files = {name: entry for file in self.files for name, entry in self._in_file(file).items()}
        return {**self.of_packages, **of_files, **self.registered}

    def find(self, name: str) -> Entry | None:
        """Return the entry of a name, or None. Usually one file is read, not all of them: see `_find_here`."""
        return self._find_here(name) or self.table().get(name)

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry of a program. Raises ConfigurationError when this package or the program has another one of this name.

        A name that an installed package adds may be used anew. This must not load entry points: a decorator that registers may
        run while the module of one is imported.
        """
        namesake = self._find_here(name)
        if namesake is not None and _definition(namesake) != _definition(entry):
            raise ConfigurationError(f"There is another {self.kind} {name!r}. Choose another name.")
        self.registered[name] = entry

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

    def _find_here(self, name: str) -> Entry | None:
        """Return the entry of a name that is registered, or stands in a file whose name is a prefix of it, long ones first."""
        if name in self.registered:
            return self.registered[name]
        files = sorted(filter(name.startswith, self.files), key=len, reverse=True)
        tables = map(self._in_file, files)
        return next((table[name] for table in tables if name in table), None)

    def _in_file(self, file: str) -> Mapping[str, Entry]:
        if file not in self._of_file:
            self._of_file[file] = self.entries(file, self.read(self.files[file]))
        return self._of_file[file]


def read_module(path: Path) -> Any:
    """Return what a module of this package adds to a registry: its `MODELS` or its `TASK`."""
    module = importlib.import_module(f"dgl_treestack.{path.parent.name}.{path.stem}")
    return getattr(module, "MODELS", None) or module.TASK


def _definition(entry: Any) -> object:
    """Return where the class of an entry is defined, since a notebook may run a definition again; other entries unchanged."""
    defined = getattr(entry, "cell", entry)
    return (defined.__module__, defined.__qualname__) if isinstance(defined, type) else entry
