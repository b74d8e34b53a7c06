"""Installed versions, and the package's files, found by name: configurations, sweeps, data, axioms."""

import hashlib
import platform
from pathlib import Path
from typing import Literal

from dgl_treestack import __version__
from dgl_treestack.errors import ConfigurationError, DataError, unknown

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


def configs(kind: Kind = "configuration") -> dict[str, Path]:
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
