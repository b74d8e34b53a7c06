"""What a file of this folder is made of."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dgl_treestack.data import formats
from dgl_treestack.data.records import Table
from dgl_treestack.encoders import Encoder
from dgl_treestack.model.dataset import ExampleSet
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run

# Large files take minutes to read, so the last one is cached: its examples, and the data prepared for one model.
_examples = lru_cache(maxsize=1)(formats.read_examples)
_prepared: dict[str, ExampleSet] = {}


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


def prepare(model: Model, data: str) -> ExampleSet:
    """Return a data file prepared for a model; the last one is cached for models that prepare it in the same way."""
    key = json.dumps([data, model.vocabulary.to_dict(), list(model.heads), isinstance(model.cell, Encoder)])
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = model.prepare(_examples((data,)))
    return _prepared[key]


def from_data(make: Callable[[Model, ExampleSet, str], Table], data: str = "test", kind: str = "") -> Extra:
    """Return the extra that is made from a model and a data set. make: (model, data set, engine) -> records."""

    def make_from_run(run: Run, file: str, engine: str) -> Table:
        model = run.load_model()
        return make(model, prepare(model, file), engine)

    return Extra(make_from_run, data, kind)
