"""Where a run was trained: versions, platform, processor, commit; and the check of the file that says it, environment.json."""

import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dgl_treestack.plain_data import read_object
from dgl_treestack.resources import versions

GOES_ON_ELSEWHERE = "%s goes on with another environment (%s): results may differ from those of an uninterrupted run"


def describe_environment(device: str) -> dict[str, Any]:
    """Return the content of `environment.json`: versions, platform, processor, device, commit, command line.

    commit: of the checkout that the package runs from, ending in `-dirty` after changes; None outside of a checkout.
    """
    import torch

    from dgl_treestack.propagate.compiled.library import threads

    git = ["git", "-C", str(Path(__file__).parent)]
    commit = None
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True, timeout=10)
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        commit = subprocess.run(describe, capture_output=True, check=True, text=True, timeout=10).stdout.strip()
    processor = platform.processor()
    with suppress(OSError):  # Linux names the model here, where `platform` knows the architecture alone
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "versions": {**versions(), "torch": torch.__version__},
        "platform": platform.platform(),
        "processor": processor,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "threads": threads(),
        "commit": commit,
        "arguments": sys.argv[1:],
    }


def origin_of(environment: Mapping[str, Any]) -> str:
    """Return commit and machine of a run's environment as text."""
    return f"commit {environment.get('commit') or 'unknown'}, {machine_of(environment)}"


def machine_of(environment: Mapping[str, Any]) -> str:
    """Return processor or GPU, and torch, of a run's environment as text; then epoch and origin of every resumption."""
    origin = _origin(environment)
    resumptions = (f", after epoch {entry['epochs']} {origin_of(entry)}" for entry in environment.get("resumed", []))
    device, version = origin.get("device", "a processor of unknown model"), origin.get("torch", "of unknown version")
    return f"{device}, torch {version}" + "".join(resumptions)


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
    """Return what of an environment the last digits of results may depend on: commit, versions, GPU or, without, processor.

    An older environment has no processor.
    """
    device = environment.get("device", "cpu")
    device = environment.get("processor") if device == "cpu" else device
    origin = {"commit": environment.get("commit"), **environment.get("versions", {})}
    return {**origin, "device": device} if device else origin


def checked_environment(text: str) -> dict[str, Any]:
    """Return the content of environment.json if what others read of it has the right types. Raises ValueError, KeyError."""
    environment = read_object(text)
    range_of(environment.get("measured"))
    kinds: dict[str, type] = {"seed": int, "device": str, "versions": dict, "equations": dict, "data": dict, "resumed": list}
    present = [(key, kind) for key, kind in kinds.items() if key in environment or key == "seed"]
    wrong = [f"{key} is {environment[key]!r:.200}" for key, kind in present if type(environment[key]) is not kind]
    for entry in environment.get("resumed", []):
        if type(entry.get("epochs")) is not int or type(entry.get("versions")) is not dict:
            wrong.append(f"a resumption is {entry!r:.200}")
    if wrong:
        raise ValueError(wrong[0])
    return environment


def range_of(measured: Any) -> tuple[int, int] | None:
    """Return the smallest and largest value of a measure from plain data, None without any. Raises ValueError."""
    if not measured:
        return None
    is_pair = isinstance(measured, list) and len(measured) == 2
    if not is_pair or not all(type(value) in (int, float) and float(value).is_integer() for value in measured):
        raise ValueError(f"'measured' is {measured!r}, not two whole numbers")
    return round(measured[0]), round(measured[1])
