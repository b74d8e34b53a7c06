"""Where a run was trained: versions, platform, processor, commit."""

import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgl_treestack.resources import versions

GOES_ON_ELSEWHERE = "%s goes on with another environment (%s): results may differ from those of an uninterrupted run"


def describe_environment(device: str) -> dict[str, Any]:
    """Return the content of `environment.json`: versions, platform, processor, device, commit, command line.

    commit: of the checkout that the package runs from, ending in `-dirty` after changes; None outside of a checkout.
    """
    import torch

    git = ["git", "-C", str(Path(__file__).parent)]
    commit = None
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True, timeout=10)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(describe, capture_output=True, check=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return {
        "versions": {**versions(), "torch": torch.__version__},
        "platform": platform.platform(),
        "processor": _processor(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": torch.get_num_threads(),
        "commit": commit,
        "arguments": sys.argv[1:],
    }


def device_of(environment: Mapping[str, Any]) -> str | None:
    """Return the GPU of an environment, or its processor if it has none; None for an older one, without its processor."""
    device = environment.get("device", "cpu")
    return environment.get("processor") if device == "cpu" else device


def machine_of(environment: Mapping[str, Any]) -> str:
    """Return processor or GPU, and torch, of a run's environment as text; then epoch and origin of every resumption."""
    device = device_of(environment) or "a processor of unknown model"
    resumptions = (f", after epoch {entry['epochs']} {origin_of(entry)}" for entry in environment.get("resumed", []))
    return f"{device}, torch {environment.get('versions', {}).get('torch', 'of unknown version')}" + "".join(resumptions)


def origin_of(environment: Mapping[str, Any]) -> str:
    """Return commit and machine of a run's environment as text."""
    return f"commit {environment.get('commit') or 'unknown'}, {machine_of(environment)}"


def with_resumption(begun: Mapping[str, Any], epochs: int, device: str) -> tuple[dict[str, Any], str]:
    """Return the environment of a run that goes on in this process, and what differs from before, as text.

    A difference is another commit, device or version: results may then differ in rounding from those of an uninterrupted run.
    It is added to the environment, under `resumed`; without one the environment is as before, and the text is empty.
    begun: the environment so far. epochs: those that are complete.
    """
    # A Transformer that an older commit had begun went on with other initial values, and nobody would have noticed.
    resumptions, environment = begun.get("resumed", []), describe_environment(device)
    before, now = _origin((resumptions or [begun])[-1]), _origin(environment)
    changes = [f"{name} {before[name]}, now {now[name]}" for name in now if name in before and before[name] != now[name]]
    if not changes:
        return dict(begun), ""
    resumption = {key: environment[key] for key in ("commit", "device", "processor", "versions")}
    return {**begun, "resumed": [*resumptions, {"epochs": epochs, **resumption}]}, "; ".join(changes)


def _origin(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of an environment the last digits of results may depend on: commit, processor or GPU, versions."""
    origin = {"commit": environment.get("commit"), **environment.get("versions", {})}
    if device := device_of(environment):
        origin["device"] = device
    return origin


def _processor() -> str:
    """Return the model of the processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
