"""`treestack doctor`."""

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from json import dumps as dump
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from dgl_treestack import atomic
from dgl_treestack.cli import Json, print_json
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import align


def doctor(
    *,
    device: Annotated[
        str, arg(help="Also compare every model on this device with the CPU, and measure steps: cpu, cuda.")
    ] = "",
    output: Annotated[Path | None, arg(help="With --device: write the whole report here as JSON, to send it back.")] = None,
    json: Json = False,
) -> int:
    """Print versions, device, which DGL is used and what is missing. Exit code 1 when something is."""
    report = examine()
    if device:
        report |= examine_device(device, report["problems"], progress=sys.stderr.isatty())
    if output:
        atomic.write_text(output, dump(report, indent=1, allow_nan=False) + "\n")
    if json:
        print_json(report)
        return int(bool(report["problems"]))
    print("\n".join(f"problem: {problem}" for problem in report["problems"]) or "all is well")
    if report["note"]:
        print(report["note"])
    folders = Counter(name.partition("/")[0] for name in report["configurations"])
    lines = [*report["versions"].items(), ("DGL", ", ".join(f"{key} {value}" for key, value in report["dgl"].items()))]
    lines += [("device", report["device"]), ("OMP_NUM_THREADS", report["threads"])]
    lines += [("configurations", ", ".join(f"{folder} {count}" for folder, count in folders.items()))]
    print(align([*lines, ("data", ", ".join(report["data"]))], "<"))
    if device:
        columns = ("float64", "float32", "cpu")
        models = [["model", *columns, ""]]
        for row in report["models"]:
            numbers = [f"{row[column]:.1e}" if column in row else "" for column in columns]
            models.append([row["model"], *numbers, "" if row["ok"] else "deviates"])
        steps: list[list[Any]] = [["training step", "batch", "waits", "ms", "s, epoch of paper", ""]]
        for row in report["steps"]:
            if "fault" in row:
                numbers = ["", "", "", row["fault"]]
            else:
                numbers = [str(len(row["waits"])), f"{row['milliseconds']:.1f}", f"{row['epoch']:.1f}", ""]
            steps.append([row["model"], row["batch"], *numbers])
        title = "largest relative difference of output and gradient from the CPU in float64; last, that of the CPU in float32"
        print(f"\n{title}\n{align(models)}\n\n{align(steps, '<>>>><')}")
    return int(bool(report["problems"]))


def examine_device(device: str, problems: list[str], *selection: Sequence[Any], progress: bool) -> dict[str, Any]:
    """Return the rows of `device_check.check`, and add those that deviate, fail or wait to the problems.

    selection: names of models and sizes of batches. Raises ConfigurationError for a device that is not there.
    """
    import torch

    from dgl_treestack.inspection import device_check
    from dgl_treestack.training.start import compute_in_float32

    number = re.fullmatch(r"cuda(?::(\d+))?", device)
    if device != "cpu" and not (number and int(number[1] or 0) < torch.cuda.device_count()):
        raise ConfigurationError(f"The device {device!r} is not available here. Give cpu, or cuda on a machine with a GPU.")
    torch.set_num_threads(1)
    if device != "cpu":
        # As training does: by torch's defaults for TF32, the LSTM and the RNN deviated by 5e-4 and 7e-4.
        compute_in_float32()
    checked = device_check.check(device, *selection, progress=progress)
    for row in checked["models"]:
        if not row["ok"]:
            deviation = row.get("fault") or f"{row['float64']:.1e} from the CPU in float64, {row['float32']:.1e} in float32"
            problems.append(f"{row['model']} on {device}: {deviation}")
    for row in checked["steps"]:
        if "fault" in row:
            problems.append(f"{row['model']} at batch {row['batch']} on {device}: {row['fault']}")
        elif row["waits"]:
            problems.append(f"{row['model']} at batch {row['batch']} waits for {device} in {', '.join(row['waits'])}")
    return {"measured on": device, **checked}


def examine() -> dict[str, Any]:
    """Return versions, DGL, device, threads, bundled resources, a note, and a list of problems (empty when all is well)."""
    from dgl_treestack.resources import bundled, configs, versions

    installed, names = versions(), {"configurations": sorted(configs()), "data": sorted(bundled())}
    problems = [f"{name} is not installed" for name, version in installed.items() if version == "missing" and name != "dgl"]
    note = ""
    try:
        from dgl_treestack import _dgl

        works = not _dgl.REASON
        dgl = {"works": works, "version": _dgl.VERSION, "graphbolt stand-in": _dgl.STAND_IN, "cuda": _dgl.has_cuda()}
        reason = _dgl.REASON
    except Exception as error:  # a broken DGL can raise anything; the report has the message
        dgl, reason = {"works": False}, str(error)
    if reason and sys.version_info >= (3, 13):  # no DGL is built for them
        note = "There is no DGL for this Python: everything works but graphs and the engine topo."
    elif reason:
        problems.append(f"DGL cannot be imported: {reason}")
    try:
        import torch

        device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"cpu, {torch.get_num_threads()} threads"
    except ImportError as error:
        problems.append(f"torch cannot be imported: {error}")
        device = "none"
    try:
        from dgl_treestack import cells, resources, tasks
        from dgl_treestack.expression import language

        cells.models(), tasks.tasks(), language.languages()
        problems += [f"the entry point {entry_point} is left out: {fault}" for entry_point, fault in resources.faults.items()]
    except ImportError:  # of torch or DGL, a problem already
        pass
    if not all(names.values()):
        problems.append("configurations or bundled data are missing from the package; install it again")
    machine = {"device": device, "threads": os.environ.get("OMP_NUM_THREADS", "not set")}
    return {"versions": installed, "problems": problems, "note": note, "dgl": dgl, **machine, **names}
