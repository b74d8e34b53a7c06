"""What a run was made with: versions, machine, device, commit."""

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
    """Return the installed versions of this package, Python and the packages it builds on; `missing` for an absent one."""
    version_of = {"dgl-treestack": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            version_of[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            version_of[package] = "missing"
    return version_of


def describe(device: str) -> dict[str, Any]:
    """Return the content of `environment.json`: versions, machine, device, commit, command line.

    commit: of the checkout that the package runs from, ending in `-dirty` after changes; None outside of a checkout.
    """
    import torch

    git = ["git", "-C", str(Path(__file__).parent)]
    commit = None
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True, timeout=10)
        describing = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(describing, capture_output=True, check=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return {
        "versions": {**versions(), "torch": torch.__version__},
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
        "commit": commit,
        "arguments": sys.argv[1:],
    }
