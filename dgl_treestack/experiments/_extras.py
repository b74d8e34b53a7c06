"""Records that a protocol needs beside those of its test set, made once the runs are done, where they are missing."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dgl_treestack.completion import questions
from dgl_treestack.completion.records import COMPLETION, Group, fill
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.encoders import Encoder
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.inspection import representations, usage
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.results import run_result
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extra:
    """make: records of a model for a data file, whose name the scale has, by an engine. kind: what they are filed under in the
    run."""

    make: Callable[[Model, str, str], Iterable[Record]]
    kind: str = ""


def measured(run: Run, names: Sequence[str], scale: Scale) -> RunResult:
    """A finished run with the extras of some names."""
    more = {}
    for name in names:
        extra, data = EXTRAS[name], scale.extras[name]
        if not run.has_records(data, extra.kind):
            logger.info("%s: %s, %s", run.folder.name, name, data)
            run.write_records(data, extra.make(run.load_model(), data, _engine(run)), extra.kind)
        more[name] = run.read_records(data, extra.kind)
    return replace(run_result.read(run.folder), more=more)


def _engine(run: Run) -> str:
    """Native code for runs that were trained with it: it is there already."""
    return "levels/compiled" if run.environment.get("kernels") == "compiled" else run.config.engine


class _Prepared:
    """The data file that was last asked for, ready for models that read it alike: large files take minutes to read."""

    def __init__(self) -> None:
        self.last: tuple[str, Dataset] | None = None

    def get(self, model: Model, data: str) -> Dataset:
        key = json.dumps([data, model.vocabulary.to_dict(), list(model.heads), isinstance(model.cell, Encoder)])
        if self.last is None or self.last[0] != key:
            self.last = key, model.prepare(_examples(data))
        return self.last[1]


@lru_cache(maxsize=1)
def _examples(data: str) -> list[Example]:
    return evaluation.read_examples([data])


@lru_cache(maxsize=1)
def _questions(data: str) -> list[Group]:
    return questions.read(find_data(data))


_prepared = _Prepared()

_COMPLETION = Extra(lambda model, data, engine: fill(model, _questions(data), engine=engine, quiet=False), COMPLETION)
EXTRAS = {
    "deep": Extra(lambda model, data, engine: evaluation.make_records(model, _prepared.get(model, data), engine)),
    "blanks": _COMPLETION,
    "deep blanks": _COMPLETION,
    "expressions": Extra(lambda model, data, engine: representations.make_records(model, find_data(data)), "expressions"),
    "usage": Extra(lambda model, data, engine: usage.make_records(model, _prepared.get(model, data)), "usage"),
}
