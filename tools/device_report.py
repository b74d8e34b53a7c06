"""Write what a device is worth, to send back: `python -m tools.device_report cuda report.json`, of about a minute.

The report of `treestack doctor --json`, the rows of its check of the device, and what makers ask besides: how many operations a
training step gives the device, and in which lines the CPU waits for it, model by model. On the CPU it runs too.
`tools/device-reports` has those of docs/benchmarks.md.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.cli.doctor import examine, examine_device
from dgl_treestack.inspection import device_check
from dgl_treestack.propagate import Options


def report(device: str, names: Sequence[str] = (), sizes: Sequence[int] = device_check.SIZES) -> dict[str, Any]:
    """Return the report. names: of models, all by default. sizes: of the timed batches.

    A model has `waits`, lines as file:line. A step has `operations`; on the CPU, which computes in other ones, those that a GPU
    would be given.
    """
    found = examine()
    found |= examine_device(device, found["problems"], names, sizes, progress=sys.stderr.isatty())
    equations = device_check.examples()
    for row in found["models"]:
        if "fault" not in row:
            model, batch = device_check.prepare(row["model"], equations[: device_check.COMPARED], device)
            with device_check.waits(device) as lines:
                device_check.step(model, batch)
            row["waits"] = sorted(set(lines))
    for row in found["steps"]:
        if "fault" not in row:
            row["operations"] = operations(row["model"], row["batch"], device)
    return found


def operations(name: str, size: int, device: str) -> int | None:
    """Return how many operations a training step of a model gives a GPU; None if unknown."""
    model, batch = device_check.prepare(name, device_check.examples()[:size], device)
    batch.plans.options = Options(group=True)
    return count_operations(lambda: device_check.step(model, batch))


def count_operations(function: Callable[[], object]) -> int | None:
    """Return how many operations a function dispatches, without views, which a device does not see; None if unknown."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return None
    count = 0

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            returned = (result.alias_info for result in operation._schema.returns)
            count += not any(alias is not None and not alias.is_write for alias in returned)
            return operation(*args, **(kwargs or {}))

    with Counting():
        function()
    return count


if __name__ == "__main__":
    device, output = sys.argv[1:]
    atomic.write_text(Path(output), json.dumps(report(device), indent=1, allow_nan=False) + "\n")
