"""Representations of expressions: their hidden states and value classes (Arabshahi 2020, substitutivity)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dgl_treestack._torch import torch_generator
from dgl_treestack.completion.questions import read_candidates
from dgl_treestack.data import records
from dgl_treestack.data.forest import Forest
from dgl_treestack.data.records import Table
from dgl_treestack.experiments.extras import Extra
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import compute
from dgl_treestack.resources import find_data
from dgl_treestack.results import metrics
from dgl_treestack.runs.run import Run

DEPTHS = range(1, 4)  # the paper's


@torch.no_grad()
def make_records(model: Model, file: Path) -> Table:
    """Return a row per expression of `DEPTHS`: its `text`, its value `class`, and the hidden state `h` of its root.

    file: expressions with value classes. Raises DataError for any other, ConfigurationError for a model that is not a tree
    model.
    """
    examples = [example for example in read_candidates(file) if example.equation.depth in DEPTHS]
    forest = Forest.build([example.equation for example in examples], model.vocabulary, model.signature)
    states = compute(forest, model.eval().tree_cell, signature=model.signature)
    vectors = states.of("h", torch.from_numpy(forest.offsets[:-1])).numpy().astype(np.float64).round(6)
    classes = [example.value_class for example in examples]
    texts = [str(example.equation) for example in examples]
    return records.of_examples(examples, {"text": texts, "class": classes, "h": vectors.tolist()})


def _untrained(run: Run) -> Model:
    """Return the model of a run with the initial values with which its training began."""
    model = run.load_model()
    model.reset_parameters(torch_generator(run.seed, "initial values"))
    return model


_TRAINED = Extra(lambda run, data, _: make_records(run.load_model(), find_data(data)), "candidates", "expressions")
_UNTRAINED = Extra(lambda run, data, _: make_records(_untrained(run), find_data(data)), "candidates", "expressions-untrained")
EXTRAS = {
    "expressions": _TRAINED,
    "neighbours": replace(_TRAINED, select=metrics.neighbours),
    "untrained expressions": _UNTRAINED,
    "untrained neighbours": replace(_UNTRAINED, select=metrics.neighbours),
}
