"""Records that a protocol needs besides those of its test set, computed from finished runs.

A file defines `EXTRAS`, name -> `Extra`; a new file is a new kind of records.
"""

import importlib
import logging
import pkgutil
from collections.abc import Sequence
from functools import cache

from dgl_treestack.experiments.extras._extra import Extra
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.results import run_result
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs.run import Run

logger = logging.getLogger(__name__)


@cache
def extras() -> dict[str, Extra]:
    """Return the extras by name, from the files of this folder."""
    files = (info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in files]
    return {name: extra for module in modules for name, extra in module.EXTRAS.items()}


def make_missing(runs: Sequence[Run], names: Sequence[str], scale: Scale) -> None:
    """Compute the extras of these names that finished runs lack, one data file after the other.

    A run that was trained with native code also uses it here, since its kernels are compiled already.
    """
    for name in names:
        extra = extras()[name]
        data = scale.file(extra.data)
        for run in runs:
            if run.has_records(data, extra.kind):
                continue
            logger.info("%s: %s, %s", run.folder.name, name, data)
            engine = "levels/compiled" if run.environment.get("kernels") == "compiled" else run.config.engine
            run.write_records(data, extra.make(run, data, engine), extra.kind)


def measured(run: Run, names: Sequence[str], scale: Scale) -> RunResult:
    """Return a finished run with the extras of these names."""
    result = run_result.with_origin(run_result.read(run.folder))
    for name in names:
        extra = extras()[name]
        result = result.with_set(name, extra.select(run.read_records(scale.file(extra.data), extra.kind)))
    return result
