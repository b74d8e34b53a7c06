"""How large an experiment is: on what data, for how many epochs and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dgl_treestack.errors import DataError
from dgl_treestack.resources import BUNDLED, find_data


@dataclass(frozen=True)
class Scale:
    """data: files by kind. deep: a test set of deeper equations. blanks: a file of blanks. changes: what is replaced in every
    configuration."""

    summary: str
    data: Mapping[str, str]
    deep: str
    blanks: str
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)


_PAPER = {kind: f"data/paper/{kind}.jsonl.gz" for kind in ("train", "validation", "test")}
_BUNDLED = {kind: f"{BUNDLED}quickstart/{kind}" for kind in ("train", "validation", "test")}
_DEEP, _BLANKS = "data/deep/test.jsonl.gz", "data/completion/blanks.jsonl.gz"

SCALES = {
    "smoke": Scale(
        "whether everything runs: the bundled equations, one epoch, hidden 12; its numbers mean nothing",
        _BUNDLED,
        _BUNDLED["test"],
        f"{BUNDLED}quickstart/blanks",
        (0,),
        {"schedule.epochs": 1, "model.hidden": 12, "compile": "off"},
    ),
    "day": Scale(
        "the sets `paper` and `deep`, 15 epochs, three seeds", _PAPER, _DEEP, _BLANKS, (0, 1, 2), {"schedule.epochs": 15}
    ),
    "paper": Scale(
        "the sets `paper` and `deep`, as many epochs as the papers say, three seeds", _PAPER, _DEEP, _BLANKS, (0, 1, 2)
    ),
}


def check_data(scale: Scale, *, deep: bool = True, blanks: bool = True) -> None:
    """Raise DataError when a file of a scale is not there."""
    for name in (*scale.data.values(), *([scale.deep] if deep else []), *([scale.blanks] if blanks else [])):
        path = find_data(name)
        if not path.is_file():
            made = f"treestack generate {path.parent.name} --output-dir {path.parent}"
            raise DataError(f"It is not there. Make it with `{made}`, or take --scale smoke.", path)
