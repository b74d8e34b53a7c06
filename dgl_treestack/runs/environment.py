"""What a run was made with."""

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from dgl_treestack import __version__

PACKAGES = (
    *("torch", "dgl", "numpy", "sympy", "mpmath", "python-flint", "networkx"),
    *("scikit-learn", "matplotlib", "safetensors", "tyro"),
)


def versions() -> dict[str, str]:
    """Installed versions of the packages the project stands on; `missing` where one is not there."""
    found = {"dgl-treestack": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "missing"
    return found


def commit() -> str | None:
    """The commit of the checkout the package runs from, with `-dirty` after it; None outside of one."""
    folder = Path(__file__).parent
    try:
        tracked = ["git", "-C", str(folder), "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(tracked, capture_output=True, check=True, timeout=10)
        described = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            check=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def describe(device: str) -> dict[str, Any]:
    """Versions, machine, device, commit: what goes into `environment.json`."""
    import torch

    return {
        "versions": {**versions(), "torch": torch.__version__},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "arguments": sys.argv[1:],
    }
