"""The pretrained models of the package: run folders like any other, without records, each with a description of the model.

`card.json`: what the model was trained on, its accuracy by depth on test sets, its calibration, the leaves that it knows, and
the checksum of its weights. `MODEL_CARD.md`: the same for people. `results.pack` writes both.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import resources
from dgl_treestack.errors import CheckpointError, ConfigurationError, unknown
from dgl_treestack.expression import Equation
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run

FOLDER = resources.FOLDER / "models"
DEFAULT = "tree_slots"


def open_run(folder: Path | None) -> Run:
    """Return a run on equations from its folder, or the default model of the package for None.

    Raises CheckpointError for a folder that is not a run, and when the weights of a model of the package have changed;
    ConfigurationError for a run on trees of another language.
    """
    run = Run(FOLDER / DEFAULT) if folder is None else Run.open(folder)
    if is_packaged(run):
        digest = card(run.folder.name)["weights"]["sha256"]
        if not run.best.is_file() or hashlib.sha256(run.best.read_bytes()).hexdigest() != digest:
            raise CheckpointError(f"{run.best} has changed since it was packed. Install the package again.")
    elif run.language.words:
        raise ConfigurationError(
            f"{folder} has trees of the language {run.language.name!r}, not equations. Ask it with `treestack predict`."
        )
    return run


def pretrained() -> dict[str, str]:
    """Return the models of the package, name -> description in one line. `load` takes the names."""
    return {path.parent.name: card(path.parent.name)["summary"] for path in sorted(FOLDER.glob("*/card.json"))}


def load(run: Path | str, dtype: torch.dtype = torch.float32) -> Model:
    """Return the model of a run folder with its best weights, or a model of the package by name, in evaluation mode.

    Raises CheckpointError for a folder that is no run, and for an unknown name.

    >>> model = load("tree_slots")  # doctest: +SKIP
    """
    if str(run) in pretrained() and not Path(run).is_dir():
        return open_run(FOLDER / str(run)).load_model(dtype)
    if not Path(run).is_dir():
        raise CheckpointError(f"{run} is no folder of a run. " + unknown("pretrained model", str(run), pretrained()))
    return Run.open(run).load_model(dtype)


@cache
def card(name: str) -> dict[str, Any]:
    """Return the description of a model of the package, `card.json`."""
    return json.loads((FOLDER / name / "card.json").read_text())


def is_packaged(run: Run) -> bool:
    """Return whether a run is a model of the package."""
    return run.folder.parent == FOLDER


def known_names(equation: Equation, run: Run) -> dict[str, str]:
    """Return new names for the variables of an equation: those that a model of the package was trained on.

    Whether an equation holds does not depend on the names. Empty if they are known, for more variables, and for other runs.
    """
    known = card(run.folder.name)["variables"] if is_packaged(run) else []
    names = dict.fromkeys(text for _, kind, text in equation.leaves() if kind == "Symbol")
    return {} if len(names) > len(known) or set(names) <= set(known) else dict(zip(names, known, strict=False))


def trust(run: Run, depth: int) -> str:
    """Return one line on the training data of a model and, for a model of the package, its accuracy at a depth."""
    if not is_packaged(run):
        names = ", ".join(run.config.data.train)
        limit = f" up to depth {run.config.data.max_depth}" if run.config.data.max_depth else ""
        return f"The model was trained on {names}{limit}; `treestack report {run.folder}` shows how often it is right."
    summary, accuracies = card(run.folder.name)["summary"], card(run.folder.name)["accuracy"]
    if measured := accuracies.get(str(depth)):
        often = f"right for {measured['percent']:.0f} % of {measured['equations']:,} test equations of depth {depth}"
    else:
        often = f"not measured at depth {depth} (from {min(map(int, accuracies))} to {max(map(int, accuracies))} it was)"
    return f"The package's model: {summary}; {often}. A guess, no proof."
