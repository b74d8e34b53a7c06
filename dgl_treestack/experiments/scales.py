"""Scales of experiments: data, epochs, seeds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import DataError
from dgl_treestack.resources import BUNDLED, find_data


@dataclass(frozen=True)
class Scale:
    """The scale of an experiment.

    data: files by kind (train, validation, test). extras: the file of every extra (`_extras.EXTRAS`). changes: values replaced
    in every configuration. narrow: `model.hidden`, by configuration, of models for which that in `changes` is impossible.
    """

    summary: str
    data: Mapping[str, str]
    extras: Mapping[str, str]
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    narrow: Mapping[str, int] = field(default_factory=dict)


_PAPER = {kind: f"data/paper/{kind}.jsonl.gz" for kind in ("train", "validation", "test")}
_BUNDLED = {kind: f"{BUNDLED}quickstart/{kind}" for kind in ("train", "validation", "test")}
_EXTRAS = {
    "deep": "data/deep/test.jsonl.gz",
    "blanks": "data/completion/blanks.jsonl.gz",
    "deep blanks": "data/completion-deep/blanks.jsonl.gz",
    "expressions": "data/completion/candidates.jsonl.gz",
    "less stack": _PAPER["test"],
    "usage": _PAPER["validation"],
    "values": _PAPER["test"],
}
_LARGE = {kind: f"data/paper-130k/{kind}.jsonl.gz" for kind in ("train", "validation", "test")}

SCALES = {
    "smoke": Scale(
        "whether everything runs: the bundled equations, one epoch, hidden 12; its numbers mean nothing",
        _BUNDLED,
        {
            "deep": _BUNDLED["test"],
            "blanks": f"{BUNDLED}quickstart/blanks",
            "deep blanks": f"{BUNDLED}quickstart/blanks",
            "expressions": f"{BUNDLED}quickstart/candidates",
            "less stack": _BUNDLED["test"],
            "usage": _BUNDLED["validation"],
            "values": _BUNDLED["test"],
        },
        (0,),
        {"schedule.epochs": 1, "model.hidden": 12, "compile": "off"},
        narrow={"tree_transformer": 64, "beyond/tree_slots": 16, "beyond/tree_lstm": 16, "beyond/tree_smu": 16},
    ),
    "day": Scale("the sets `paper` and `deep`, 15 epochs", _PAPER, _EXTRAS, (0, 1, 2), {"schedule.epochs": 15}),
    "paper": Scale("the sets `paper` and `deep`, as many epochs as the papers say", _PAPER, _EXTRAS, (0, 1, 2)),
    "large": Scale(
        "`paper` with 130,000 training equations, and `deep`; for `beyond` and `values`",
        _LARGE,
        _EXTRAS | {"values": _LARGE["test"]},
        (0, 1, 2, 3, 4),
    ),
}


def check_data(scale: Scale, extras: Iterable[str] = ()) -> None:
    """Raise DataError when a file of a scale does not exist. extras: those whose files are needed too."""
    for name in (*scale.data.values(), *(scale.extras[extra] for extra in extras)):
        path = find_data(name)
        if not path.is_file():
            preset = "paper --train-size 130000" if path.parent.name == "paper-130k" else path.parent.name
            command = f"treestack generate {preset} --output-dir {path.parent}"
            raise DataError(f"It does not exist. Generate it with `{command}`, or use --scale smoke.", path)
