"""Records that a protocol needs besides those of its test set, computed from finished runs.

A file defines `EXTRAS`, name -> `Extra`; a new file is a new kind of records.
"""

import importlib
import json
import logging
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from dgl_treestack.data import formats
from dgl_treestack.data.records import Table
from dgl_treestack.experiments.protocol import Scale
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run
from dgl_treestack.sequence.encoders import Encoder

logger = logging.getLogger(__name__)

# Large files take minutes to read, so the last one is cached: its examples, and the data prepared for one model.
_examples = lru_cache(maxsize=1)(formats.read_examples)
_prepared: dict[str, Dataset] = {}


@dataclass(frozen=True)
class Extra:
    """Records beside those of the test set.

    make: (run, data file, engine) -> records. data: of which file, see `Scale.file`. kind: the kind of these records in a run.
    select: what a table needs of them.
    """

    make: Callable[[Run, str, str], Table]
    data: str = "test"
    kind: str = ""
    select: Callable[[Table], Table] = lambda table: table


def from_data(make: Callable[[Model, Dataset, str], Table], data: str = "test", kind: str = "") -> Extra:
    """Return the extra that is made from a model and a data set. make: (model, data set, engine) -> records."""

    def make_from_run(run: Run, file: str, engine: str) -> Table:
        model = run.load_model()
        key = json.dumps([file, model.vocabulary.to_dict(), list(model.heads), isinstance(model.cell, Encoder)])
        if key not in _prepared:
            _prepared.clear()
            _prepared[key] = model.prepare(_examples((file,), signature=run.language))
        return make(model, _prepared[key], engine)

    return Extra(make_from_run, data, kind)


@cache
def extras() -> dict[str, Extra]:
    """Return the extras by name, from the files of this folder."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return {name: extra for module in modules for name, extra in module.EXTRAS.items()}


def make_missing(runs: Sequence[Run], names: Sequence[str], scale: Scale) -> None:
    """Compute the extras of these names that finished runs lack, one data file after the other.

    A run that was trained with native code also uses it here, since its kernels are compiled already.
    """
    for name in names:
        extra = extras()[name]
        # File by file: run by run, `deep` was read anew for each, 100 s every time; now a run takes some 15 s.
        data = scale.file(extra.data)
        for run in runs:
            if run.has_records(data, extra.kind):
                continue
            logger.info("%s: %s, %s", run.folder.name, name, data)
            engine = "levels/compiled" if run.environment.get("kernels") == "compiled" else run.config.engine
            run.write_records(data, extra.make(run, data, engine), extra.kind)
