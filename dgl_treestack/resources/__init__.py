"""What is found by name: files of the package, such as configurations and data, and the entries of a registry: those of this
package, of a program that registers more, and of other installed packages. And the installed versions."""

import hashlib
import importlib
import logging
import platform
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from dgl_treestack import __version__
from dgl_treestack.errors import ConfigurationError, DataError, unknown

logger = logging.getLogger(__name__)
Entry = TypeVar("Entry")

FOLDER = Path(__file__).parent
BUNDLED = "bundled:"
PACKAGES = (
    *("torch", "dgl", "numpy", "sympy", "mpmath", "python-flint", "networkx"),
    *("scikit-learn", "matplotlib", "safetensors", "tyro"),
)
Kind = Literal["configuration", "sweep"]

# In a wheel the configurations are in this folder; in a checkout they are in the folder beside the package.
_CONFIGS = next((folder for folder in (FOLDER / "configs", FOLDER.parent.parent / "configs") if folder.is_dir()), FOLDER)
_DATA = FOLDER / "data"
faults: dict[str, str] = {}  # why an entry point was left out, by its description
_CHECKSUMS: dict[tuple[Path, int, int], str] = {}  # by path, size and time of the last change


def versions() -> dict[str, str]:
    """Return the installed versions of this package, Python and the packages it builds on; `missing` for an absent one."""
    from importlib import metadata  # which reads mail headers: it doubles the time of this module

    version_of = {"dgl-treestack": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            version_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            version_of[package] = "missing"
    return version_of


@cache
def configs(kind: Kind = "configuration") -> Mapping[str, Path]:
    """Return the configurations, or the sweeps, of the package: `quickstart/tree_smu`, or `sweep/stack_size` -> file."""
    paths = {str(path.relative_to(_CONFIGS).with_suffix("")): path for path in sorted(_CONFIGS.rglob("*.toml"))}
    return {name: path for name, path in paths.items() if name.startswith("sweep/") == (kind == "sweep")}


def find_config(name: str, kind: Kind = "configuration") -> Path:
    """Return a configuration, or a sweep, by path or, if there is no such file, by name.

    So `configs/quickstart/tree_smu.toml` is found in a wheel, too. Raises ConfigurationError.
    """
    if Path(name).is_file():
        return Path(name)
    paths, key = configs(kind), name.removeprefix("configs/").removesuffix(".toml")
    if key not in paths:
        raise ConfigurationError(f"{name} is no file, nor a name of the package's. {unknown(kind, name, paths)}")
    return paths[key]


def bundled() -> dict[str, Path]:
    """Return the data files of the package: `bundled:quickstart/train` -> file."""
    files = sorted(_DATA.rglob("*.jsonl.gz"))
    return {BUNDLED + str(path.relative_to(_DATA)).removesuffix(".jsonl.gz"): path for path in files}


def find_data(name: str) -> Path:
    """Return a data file by path, or by name when it starts with `bundled:`. Raises DataError."""
    if not name.startswith(BUNDLED):
        return Path(name)
    paths = bundled()
    if name not in paths:
        raise DataError(unknown("data set", name, paths))
    return paths[name]


def sha256(path: Path) -> str:
    """Return the checksum of a file in hexadecimal. It is cached until the file changes.

    Raises DataError if the file cannot be read.
    """
    try:
        state = path.stat()
        key = (path, state.st_size, state.st_mtime_ns)
        if key not in _CHECKSUMS:
            with path.open("rb") as file:  # which may be larger than the memory
                _CHECKSUMS[key] = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    return _CHECKSUMS[key]


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
