"""Scales of experiments: data, epochs, seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.resources import BUNDLED, find_data


@dataclass(frozen=True)
class Scale:
    """The scale of an experiment.

    data: files by kind (train, validation, test). other_data: those of further sets, by the names that protocols use. extras:
    further files that extras are made of, by name. changes: values replaced in every configuration. own: values replaced in
    single configurations, by their names, after `changes` and before those of a row. left_out: protocols that `all` does not
    mean at this scale. only: those that it means, all others by default. differs: what differs from the papers in all rows.
    """

    summary: str
    data: Mapping[str, str]
    extras: Mapping[str, str]
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    only: Sequence[str] = ()
    other_data: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    differs: str = ""

    def file(self, name: str) -> str:
        """Return the file of an extra: of a kind of `data`, or in `extras`."""
        return self.extras[name] if name in self.extras else self.data[name]

    def files(self, name: str) -> Mapping[str, str]:
        """Return the files by kind of the set of a name, '' for `data`. Raises ConfigurationError for an unknown name."""
        if name and name not in self.other_data:
            raise ConfigurationError(unknown("set", name, self.other_data))
        return self.other_data[name] if name else self.data


_PAPER = {kind: f"data/paper/{kind}.jsonl.gz" for kind in ("train", "validation", "test")}
_SMOKE = {kind: f"{BUNDLED}smoke/{kind}" for kind in ("train", "validation", "test")}
_EXTRAS = {
    "deep": "data/deep/test.jsonl.gz",
    "blanks": "data/completion/blanks.jsonl.gz",
    "deep blanks": "data/completion-deep/blanks.jsonl.gz",
    "candidates": "data/completion/candidates.jsonl.gz",
}
_LABELS = {"paper-labels": {kind: f"data/paper-labels/{kind}.jsonl.gz" for kind in _PAPER}}
_MILLION = {kind: f"data/paper-1m/{kind}.jsonl.gz" for kind in _PAPER}
_LARGE = {kind: f"data/paper-130k/{kind}.jsonl.gz" for kind in ("train", "validation", "test")}

# Settings of all models in a comparison. Our configurations of Mali's models have dropout 0.1 and batches of 50, those of the
# Transformers have dropout.
_COMMON = {
    "model.dropout": 0.0,
    "batch_size": 32,
    "schedule.epochs": 60,
    "schedule.early_stopping": 15,  # epochs; with 5, models that start slowly may stop before they learn
    "schedule.plateau": 0,
    "optimizer.weight_decay": 1e-5,
}

# The learning rates with the best validation accuracy in the experiment `learning_rate`, by configuration.
_RATES = {
    "rnn": 1e-3,
    "lstm": 3e-3,
    "stack_rnn": 3e-3,
    "transformer": 3e-4,
    "tree_transformer": 1e-3,
    "tree_rnn_tanh": 3e-3,
    "tree_rnn_two_layers-tanh": 1e-3,
    "tree_rnn_stack-tanh": 3e-3,
    "tree_rnn_stack_noop-tanh": 3e-3,
    "tree_lstm": 1e-2,
    "tree_lstm_stack": 1e-2,
    "tree_lstm_stack_normalise": 1e-2,
    "tree_lstm_stack_normalise_noop": 1e-2,
    "tree_smu": 1e-2,
    "tree_smu_pushpop": 1e-2,
    "tree_rnn_second_order-searched": 1e-5,
    "mi_tree_lstm-searched": 3e-3,
    "mtree_lstm-searched": 1e-3,
    "mi_tree_lstm_stack-searched": 3e-3,
    "mtree_lstm_stack-searched": 1e-3,
    "mtree_lstm_first_order-searched": 1e-3,
    "mi_tree_lstm_first_order-searched": 1e-3,
    "mi_tree_lstm_stack_first_order-searched": 3e-3,
    "mtree_lstm_stack_first_order-searched": 1e-3,
}

SCALES = {
    "smoke": Scale(
        "whether everything runs: a fifth of the bundled equations, one epoch, hidden 12; its numbers mean nothing",
        _SMOKE,
        {
            "deep": _SMOKE["test"],
            "blanks": f"{BUNDLED}quickstart/blanks",
            "deep blanks": f"{BUNDLED}quickstart/blanks",
            "candidates": f"{BUNDLED}quickstart/candidates",
        },
        (0,),
        {"schedule.epochs": 1, "model.hidden": 12, "compile": "off"},
        own={
            "tree_transformer": {"model.hidden": 64},
            **{f"beyond/{name}": {"model.hidden": 16} for name in ("tree_slots", "tree_lstm", "tree_smu")},
            "beyond/tree_slots-1m": {"model.hidden": 32},
        },
        left_out=("learning_rate",),  # a hundred runs, of models that all run in other experiments
        other_data={"paper-labels": _SMOKE},
    ),
    "day": Scale(
        "the sets `paper` and `deep`; settings common to all models of the papers, with the learning rates of the experiment "
        "`learning_rate`",
        _PAPER,
        _EXTRAS,
        (0, 1, 2, 3, 4),
        _COMMON,
        own={
            **{name: {"optimizer.learning_rate": rate} for name, rate in _RATES.items()},
            **{
                name: {"batch_size": 256, "schedule.epochs": 15, "schedule.early_stopping": 0}
                for name in ("beyond/tree_slots", "beyond/tree_lstm", "beyond/tree_smu")
            },
        },
        left_out=("beyond", "values", "more_data"),  # they have scales of their own
        other_data=_LABELS,
        differs="a searched learning rate (2019, and the tree models of 2020: 1e-3; Mali: 0.1, halved when validation does not "
        "improve), weight decay 1e-5 (Mali: 2e-5), no dropout (2020 and Mali search it), hidden 50 (2020 and Mali search it), "
        "batches of 32 (Mali: 50), at most 60 epochs (Mali: 500) and a stop after 15 without a better validation accuracy",
    ),
    "paper": Scale(
        "the sets `paper` and `deep`, the papers' settings and epochs",
        _PAPER,
        _EXTRAS,
        (0, 1, 2),
        left_out=("beyond", "values", "more_data", "learning_rate"),
        other_data=_LABELS,
    ),
    "large": Scale(
        "`paper` with 130,000 training equations, and `deep`; for `beyond` and `values`",
        _LARGE,
        _EXTRAS,
        (0, 1, 2, 3, 4),
        only=("beyond", "values"),
        other_data=_LABELS,
    ),
    "million": Scale(
        "`paper` with 1,000,000 training equations, and `deep`; for `more_data`",
        _MILLION,
        _EXTRAS,
        (0, 1, 2),
        only=("more_data",),
        other_data=_LABELS,
    ),
}


def check_data(scale: Scale, extras: Iterable[str] = (), sets: Iterable[str] = ("",)) -> None:
    """Raise DataError when a file of a scale does not exist. extras, sets: names of files that are needed."""
    files = [file for name in sets for file in scale.files(name).values()]
    for name in (*files, *map(scale.file, extras)):
        path = find_data(name)
        if not path.is_file():
            size = {"paper-130k": 130_000, "paper-1m": 1_000_000}.get(path.parent.name)
            preset = f"paper --train-size {size}" if size else path.parent.name
            command = f"treestack generate {preset} --output-dir {path.parent}"
            raise DataError(f"It does not exist. Generate it with `{command}`, or use --scale smoke.", path)
