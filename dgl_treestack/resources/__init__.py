"""What an installed package needs at run time: configurations, bundled data, axioms. Found by name."""

import hashlib
from functools import lru_cache
from pathlib import Path

from dgl_treestack.errors import ConfigurationError, DataError, unknown

FOLDER = Path(__file__).parent
BUNDLED = "bundled:"

# In a wheel the configurations lie here; in a checkout they are the folder beside the package.
_CONFIGS = next((folder for folder in (FOLDER / "configs", FOLDER.parent.parent / "configs") if folder.is_dir()), FOLDER)
_DATA = FOLDER / "data"


_SWEEPS = "sweep/"


def _described() -> dict[str, Path]:
    return {str(path.relative_to(_CONFIGS).with_suffix("")): path for path in sorted(_CONFIGS.rglob("*.toml"))}


def configs() -> dict[str, Path]:
    """The configurations of the package: `quickstart/tree_smu` -> file."""
    return {name: path for name, path in _described().items() if not name.startswith(_SWEEPS)}


def sweeps() -> dict[str, Path]:
    """The sweeps of the package: `sweep/stack_size` -> file."""
    return {name: path for name, path in _described().items() if name.startswith(_SWEEPS)}


def find_config(name: str) -> Path:
    """A configuration by path or, when there is no such file, by name: `configs/quickstart/tree_smu.toml` is in every wheel.

    Raises ConfigurationError.
    """
    return _found(name, "configuration", configs())


def find_sweep(name: str) -> Path:
    """A sweep by path or by name. Raises ConfigurationError."""
    return _found(name, "sweep", sweeps())


def _found(name: str, kind: str, known: dict[str, Path]) -> Path:
    if Path(name).is_file():
        return Path(name)
    key = name.removeprefix("configs/").removesuffix(".toml")
    if key not in known:
        raise ConfigurationError(unknown(kind, name, known))
    return known[key]


def bundled() -> dict[str, Path]:
    """The data of the package: `bundled:quickstart/train` -> file."""
    files = sorted(_DATA.rglob("*.jsonl.gz"))
    return {BUNDLED + str(path.relative_to(_DATA)).removesuffix(".jsonl.gz"): path for path in files}


def find_data(name: str) -> Path:
    """A data file by path, or by name when it starts with `bundled:`. Raises DataError."""
    if not name.startswith(BUNDLED):
        return Path(name)
    if name not in bundled():
        raise DataError(unknown("data set", name, bundled()))
    return bundled()[name]


def sha256(path: Path) -> str:
    """Checksum of a file. Raises DataError when it cannot be read."""
    try:
        state = path.stat()
        return _sha256(path, state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", path) from None


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
