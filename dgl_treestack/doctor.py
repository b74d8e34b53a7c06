"""What is installed, what is missing, which DGL is used and on what device things can run."""

import os
from typing import Any


def examine() -> dict[str, Any]:
    """Versions, DGL, device, threads, bundled resources, and a list of problems (empty when all is well)."""
    from dgl_treestack.resources import bundled, configs
    from dgl_treestack.runs import environment

    found: dict[str, Any] = {"versions": environment.versions(), "problems": []}
    found["problems"] += [f"{name} is not installed" for name, version in found["versions"].items() if version == "missing"]
    found["dgl"] = _examine_dgl(found["problems"])
    found["device"] = _examine_device(found["problems"])
    found["threads"] = os.environ.get("OMP_NUM_THREADS", "not set")
    found["configurations"], found["data"] = sorted(configs()), sorted(bundled())
    if not found["configurations"] or not found["data"]:
        found["problems"].append("configurations or bundled data are missing from the package; install it again")
    return found


def _examine_dgl(problems: list[str]) -> dict[str, Any]:
    try:
        from dgl_treestack import _dgl
    except Exception as error:  # whatever a broken DGL raises belongs into the report
        problems.append(f"DGL cannot be imported: {error}")
        return {"works": False}
    return {"works": True, "version": _dgl.VERSION, "graphbolt stand-in": _dgl.STAND_IN, "cuda": _dgl.has_cuda()}


def _examine_device(problems: list[str]) -> str:
    try:
        import torch
    except ImportError as error:
        problems.append(f"torch cannot be imported: {error}")
        return "none"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu, {torch.get_num_threads()} threads"


def describe(found: dict[str, Any]) -> str:
    """The findings as text."""
    dgl = ", ".join(f"{key} {value}" for key, value in found["dgl"].items())
    lines = [f"{name:<16}{version}" for name, version in found["versions"].items()]
    lines += [f"{'DGL':<16}{dgl}", f"{'device':<16}{found['device']}", f"{'OMP_NUM_THREADS':<16}{found['threads']}"]
    lines += [f"{'configurations':<16}{', '.join(found['configurations'])}", f"{'data':<16}{', '.join(found['data'])}"]
    problems = [f"problem: {problem}" for problem in found["problems"]] or ["all is well"]
    return "\n".join([*lines, *problems])
