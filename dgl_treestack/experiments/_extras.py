"""Records that a protocol needs besides those of its test set, computed from finished runs."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from dgl_treestack.completion import questions
from dgl_treestack.completion.records import COMPLETION, fill
from dgl_treestack.data import formats
from dgl_treestack.data.records import Table
from dgl_treestack.encoders import Encoder
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.generators import torch_generator
from dgl_treestack.inspection import ablation, representations, usage, values
from dgl_treestack.model.dataset import ExampleSet
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.results import metrics, run_result
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs import evaluation
from dgl_treestack.runs.run import Run

logger = logging.getLogger(__name__)

# Large files take minutes to read, so the last one is cached: its examples, the data prepared for one model, its blanks.
_examples = lru_cache(maxsize=1)(formats.read_examples)
_prepared: dict[str, ExampleSet] = {}
_questions = lru_cache(maxsize=1)(questions.read)


@dataclass(frozen=True)
class Extra:
    """Records beside those of the test set.

    make: (run, data file, engine) -> records. kind: the kind of these records in a run. select: what a table needs of them.
    """

    make: Callable[[Run, str, str], Table]
    kind: str = ""
    select: Callable[[Table], Table] = lambda table: table


def make_missing(runs: Sequence[Run], names: Sequence[str], scale: Scale) -> None:
    """Compute the extras of these names that finished runs lack, one data file after the other.

    A run that was trained with native code also uses it here, since its kernels are compiled already.
    """
    for name in names:
        extra, data = EXTRAS[name], scale.extras[name]
        for run in runs:
            if run.has_records(data, extra.kind):
                continue
            logger.info("%s: %s, %s", run.folder.name, name, data)
            engine = "levels/compiled" if run.environment.get("kernels") == "compiled" else run.config.engine
            run.write_records(data, extra.make(run, data, engine), extra.kind)


def measured(run: Run, names: Sequence[str], scale: Scale) -> RunResult:
    """Return a finished run with the extras of these names."""
    result = run_result.read(run.folder)
    for name in names:
        extra = EXTRAS[name]
        result = result.with_set(name, extra.select(run.read_records(scale.extras[name], extra.kind)))
    return result


def _prepare(model: Model, data: str) -> ExampleSet:
    """Return a data file prepared for a model; the last one is cached for models that prepare it in the same way."""
    key = json.dumps([data, model.vocabulary.to_dict(), list(model.heads), isinstance(model.cell, Encoder)])
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = model.prepare(_examples((data,)))
    return _prepared[key]


def _untrained(run: Run) -> Model:
    """Return the model of a run with the initial values with which its training began."""
    model = run.load_model()
    model.reset_parameters(torch_generator(run.seed, "initial values"))
    return model


def _prepared_for(make: Callable[[Model, ExampleSet, str], Table], kind: str = "") -> Extra:
    """Return the extra that is made from a model and a data set. make: (model, data set, engine) -> records."""

    def make_from_run(run: Run, data: str, engine: str) -> Table:
        model = run.load_model()
        return make(model, _prepare(model, data), engine)

    return Extra(make_from_run, kind)


def _answers(low: int = 1, high: int = 99) -> Callable[[Table], Table]:
    """Select the equations of some depths, without scores and pairs, so that a file of records is smaller."""
    without = {"score": pl.lit(None, pl.Float64), "pair": pl.lit(None, pl.String)}
    return lambda table: table.filter(pl.col("depth").is_between(low, high)).with_columns(**without)


_EVALUATED = _prepared_for(evaluation.answers)
_COMPLETION = Extra(
    lambda run, data, engine: fill(run.load_model(), _questions(find_data(data)), engine=engine, quiet=False), COMPLETION
)
_EXPRESSIONS = Extra(lambda run, data, _: representations.make_records(run.load_model(), find_data(data)), "expressions")
_UNTRAINED = Extra(lambda run, data, _: representations.make_records(_untrained(run), find_data(data)), "expressions-untrained")
EXTRAS = {
    "certified": _EVALUATED,
    "deep": _EVALUATED,
    **{f"deep {low}-{high}": replace(_EVALUATED, select=_answers(low, high)) for low, high in ((1, 4), (1, 7), (8, 19))},
    "train": replace(_EVALUATED, select=_answers()),
    "blanks": _COMPLETION,
    "deep blanks": _COMPLETION,
    "expressions": _EXPRESSIONS,
    "neighbours": replace(_EXPRESSIONS, select=metrics.neighbours),
    "untrained expressions": _UNTRAINED,
    "untrained neighbours": replace(_UNTRAINED, select=metrics.neighbours),
    "values": _prepared_for(values.make_records, "values"),
    "less stack": _prepared_for(lambda model, dataset, _: ablation.make_records(model, dataset), "ablation"),
    "usage": _prepared_for(lambda model, dataset, _: usage.make_records(model, dataset), "usage"),
}
