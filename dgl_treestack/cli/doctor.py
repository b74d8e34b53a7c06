"""`treestack doctor`."""

import os
from typing import Any

from dgl_treestack.cli._arguments import Json, print_json


def doctor(json: Json = False) -> int:
    """Print versions, device, which DGL is used and what is missing. Exit code 1 when something is."""
    report = examine()
    if json:
        print_json(report)
        return int(bool(report["problems"]))
    dgl = ", ".join(f"{key} {value}" for key, value in report["dgl"].items())
    for name, version in report["versions"].items():
        print(f"{name:<16}{version}")
    print(f"{'DGL':<16}{dgl}\n{'device':<16}{report['device']}\n{'OMP_NUM_THREADS':<16}{report['threads']}")
    print(f"{'configurations':<16}{', '.join(report['configurations'])}\n{'data':<16}{', '.join(report['data'])}")
    for problem in report["problems"]:
        print(f"problem: {problem}")
    if not report["problems"]:
        print("all is well")
    return int(bool(report["problems"]))


def examine() -> dict[str, Any]:
    """Return versions, DGL, device, threads, bundled resources, and a list of problems (empty when all is well)."""
    from dgl_treestack.resources import bundled, configs, versions

    installed, names = versions(), {"configurations": sorted(configs()), "data": sorted(bundled())}
    problems = [f"{name} is not installed" for name, version in installed.items() if version == "missing"]
    try:
        from dgl_treestack import _dgl

        works = not _dgl.REASON
        dgl = {"works": works, "version": _dgl.VERSION, "graphbolt stand-in": _dgl.STAND_IN, "cuda": _dgl.has_cuda()}
        reason = _dgl.REASON
    except Exception as error:  # a broken DGL can raise anything; the report has the message
        dgl, reason = {"works": False}, str(error)
    if reason:
        problems.append(f"DGL cannot be imported: {reason}")
    try:
        import torch

        device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu, {torch.get_num_threads()} threads"
    except ImportError as error:
        problems.append(f"torch cannot be imported: {error}")
        device = "none"
    if not all(names.values()):
        problems.append("configurations or bundled data are missing from the package; install it again")
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    return {"versions": installed, "problems": problems, "dgl": dgl, "device": device, "threads": threads, **names}
