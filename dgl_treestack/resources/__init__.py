"""Files that an installed package needs at run time: configurations, sweeps, bundled data, axioms. They are found by name."""

import hashlib
from pathlib import Path

from dgl_treestack.errors import ConfigurationError, DataError, unknown

FOLDER = Path(__file__).parent
BUNDLED = "bundled:"

# In a wheel the configurations are in this folder; in a checkout they are in the folder beside the package.
_CONFIGS = next((folder for folder in (FOLDER / "configs", FOLDER.parent.parent / "configs") if folder.is_dir()), FOLDER)
_DATA = FOLDER / "data"
_CHECKSUMS: dict[tuple[Path, int, int], str] = {}  # by path, size and time of the last change


def configs() -> dict[str, Path]:
    """Return the configurations of the package: `quickstart/tree_smu` -> file."""
    paths = {str(path.relative_to(_CONFIGS).with_suffix("")): path for path in sorted(_CONFIGS.rglob("*.toml"))}
    return {name: path for name, path in paths.items() if not name.startswith("sweep/")}


def sweeps() -> dict[str, Path]:
    """Return the sweeps of the package: `sweep/stack_size` -> file."""
    paths = sorted((_CONFIGS / "sweep").rglob("*.toml"))
    return {str(path.relative_to(_CONFIGS).with_suffix("")): path for path in paths}


def find_config(name: str) -> Path:
    """Return a configuration by path or, when there is no such file, by name.

    `configs/quickstart/tree_smu.toml` is thereby found in every wheel. Raises ConfigurationError.
    """
    return _find(name, "configuration", configs())


def find_sweep(name: str) -> Path:
    """Return a sweep by path or by name, as `find_config` does. Raises ConfigurationError."""
    return _find(name, "sweep", sweeps())


def _find(name: str, kind: str, paths: dict[str, Path]) -> Path:
    if Path(name).is_file():
        return Path(name)
    key = name.removeprefix("configs/").removesuffix(".toml")
    if key not in paths:
        raise ConfigurationError(unknown(kind, name, paths))
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
    """Return the checksum of a file in hexadecimal; it is computed once per process and state of the file.

    Raises DataError when the file cannot be read.
    """
    try:
        state = path.stat()
        key = (path, state.st_size, state.st_mtime_ns)
        if key not in _CHECKSUMS:
            _CHECKSUMS[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None
    return _CHECKSUMS[key]
