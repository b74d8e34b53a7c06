"""The pretrained models of the package: run folders like any other, without records, each with a description of the model.

`card.json`: what the model was trained on, its accuracy by depth on test sets, its calibration, the leaves that it knows, and
the checksum of its weights. `MODEL_CARD.md`: the same for people. `tools/pack.py` writes both.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dgl_treestack.errors import CheckpointError, ConfigurationError, unknown
from dgl_treestack.expression import Equation
from dgl_treestack.model.model import Model
from dgl_treestack.resources import FOLDER as RESOURCES
from dgl_treestack.resources import sha256
from dgl_treestack.runs.run import Run

FOLDER = RESOURCES / "models"
DEFAULT = "tree_slots"
STATE_DICT = "Build the model as it was, give it the weights with model.load_state_dict, and write it with model.save(FOLDER)."


def open_run(folder: Path | None) -> Run:
    """Return a run on equations from its folder, or the default model of the package for None.

    Raises CheckpointError for no run, or a model of the package whose weights have changed; ConfigurationError for a run on
    trees of another language.
    """
    run = Run(FOLDER / DEFAULT) if folder is None else Run.open(folder)
    if is_packaged(run):
        # `verify` answers everybody with it, so its weights are compared with those that the card describes.
        if not run.best.is_file() or sha256(run.best) != card(run.folder.name)["weights"]["sha256"]:
            raise CheckpointError(f"{run.best} has changed since it was packed. Install the package again.")
    elif run.language.words:
        raise ConfigurationError(
            f"{folder} has trees of the language {run.language.name!r}, not equations. Ask it with `treestack predict`."
        )
    return run


def pretrained() -> dict[str, str]:
    """Return the models of the package, name -> description in one line. `load` takes the names."""
    return {path.parent.name: card(path.parent.name)["summary"] for path in sorted(FOLDER.glob("*/card.json"))}


def load(run: Path | str, dtype: torch.dtype | None = None) -> Model:
    """Return the model of a run folder with its best weights, or a model of the package by name, in evaluation mode.

    dtype: of the parameters, by default as saved. Raises CheckpointError for anything but these, with the remedy.

    >>> model = load("tree_slots")  # doctest: +SKIP
    """
    return find(run).load_model(dtype)


def find(run: Path | str) -> Run:
    """Return a run by its folder, or a model of the package by its name. Raises CheckpointError, as `load`."""
    if isinstance(run, str | os.PathLike):
        path = Path(run)
        if path.is_dir():
            return Run.open(path)
        if str(run) in pretrained():
            return open_run(FOLDER / str(run))
        fault = f"{run} is no folder of a run. " + unknown("pretrained model", str(run), pretrained())
        if path.is_file():
            of_run = path.parent.name == Run(path).best.parent.name
            remedy = f"Give the folder of the run, {path.parent.parent}." if of_run else STATE_DICT
            fault = f"{run} is a file, and no folder of a run; pickled weights are not read. {remedy}"
    else:
        remedy = "Use the model as it is, or write it with model.save(FOLDER)." if isinstance(run, nn.Module) else STATE_DICT
        fault = f"`load` reads the folder of a run, or a model of the package by name, not {type(run)}. {remedy}"
    raise CheckpointError(fault)


@cache
def card(name: str) -> dict[str, Any]:
    """Return the description of a model of the package, `card.json`."""
    return json.loads((FOLDER / name / "card.json").read_text())


def is_packaged(run: Run) -> bool:
    """Return whether a run is a model of the package."""
    return run.folder.parent == FOLDER


def trust(run: Run, equation: Equation) -> str:
    """Return one line on the training data of a model and, for a model of the package, its accuracy on such equations."""
    if not is_packaged(run):
        names = ", ".join(run.config.data.train) or "data that its folder does not name"
        limit = f" up to depth {run.config.data.max_depth}" if run.config.data.max_depth else ""
        return f"The model was trained on {names}{limit}; `treestack report {run.folder}` shows how often it is right."
    content, depth = card(run.folder.name), str(equation.depth)
    if not any(kind == "Symbol" for _, kind, _ in equation.leaves()):
        said = "right about {right} of 100 equations without variables, {identities} of the 50 true ones"
        often = said.format(**content["constants"])
    elif depth in content["accuracy"]:
        measured = content["accuracy"][depth]
        often = f"right for {measured['percent']:.0f} % of {measured['equations']:,} test equations of depth {depth}"
    else:
        depths = [*map(int, content["accuracy"])]
        often = f"not measured at depth {depth} (from {min(depths)} to {max(depths)} it was)"
    return f"The package's model: {content['summary']}; {often}. A guess, no proof."
