"""The pretrained model of the package: a run folder like any other, without its records, and a description of the model.

`card.json`: what it was trained on, its accuracy by depth on the test set, and the checksum of its weights. `MODEL_CARD.md`:
the same for people.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import atomic, resources
from dgl_treestack.data import records
from dgl_treestack.errors import CheckpointError, ConfigurationError, unknown
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run

FOLDER = resources.FOLDER / "models" / "tree_smu"
KEPT = ("seed", "config", "versions", "commit", "kernels", "data", "equations")  # of a run's environment
FEWEST = 100  # minimum equations of a depth for an accuracy in the card

MODEL_CARD = """# The model of the package

The model `{summary}.
Hidden {model.hidden}, vocabulary `{model.vocabulary}`, seed {seed}, {epochs} epochs, of which the one
with the best validation accuracy. Commit {commit}.

Asked by `treestack verify` and `treestack complete` when no `--run` is given. It says how likely an equation over the 29
operators of the papers is to hold. It is a guess from the form of the equation: it has seen matched pairs of true and false
equations made from axioms, not mathematics as people write it. Believe the numeric check that is printed beside it.

| depth | test equations | right, per cent |
|---|---|---|
{depths}

Half of the equations of every depth hold, so 50 is chance. Depths above {max_depth} were not trained on.

Weights: `{weights[file]}`, SHA-256 `{weights[sha256]}`.
Data: `treestack generate paper --train-size ...`; checksums in `environment.json`. Made by `python -m
dgl_treestack.runs.pretrained RUN`.
"""


def open_run(folder: Path | None) -> Run:
    """Return a run on equations from its folder, or the model of the package for None.

    Raises CheckpointError for a folder that is not a run, and when the weights of the package's model have changed;
    ConfigurationError for a run on trees of another language.
    """
    if folder is not None:
        run = Run.open(folder)
        if run.language.words:
            raise ConfigurationError(
                f"{folder} has trees of the language {run.language.name!r}, not equations. Ask it with `treestack predict`."
            )
        return run
    run = Run(FOLDER)
    if not run.best.is_file() or hashlib.sha256(run.best.read_bytes()).hexdigest() != card()["weights"]["sha256"]:
        raise CheckpointError(f"{run.best} has changed since it was packed. Install the package again.")
    return run


def pretrained() -> dict[str, str]:
    """Return the models of the package, name -> description in one line. `load` takes the names."""
    return {FOLDER.name: card()["summary"]}


def load(run: Path | str, dtype: torch.dtype = torch.float32) -> Model:
    """Return the model of a run folder with its best weights, or a model of the package by name, in evaluation mode.

    Raises CheckpointError for a folder that is no run, and for an unknown name.

    >>> model = load("tree_smu")  # doctest: +SKIP
    """
    if str(run) in pretrained() and not Path(run).is_dir():
        return open_run(None).load_model(dtype)
    if not Path(run).is_dir():
        raise CheckpointError(f"{run} is no folder of a run. " + unknown("pretrained model", str(run), pretrained()))
    return Run.open(run).load_model(dtype)


@cache
def card() -> dict[str, Any]:
    """Return the description of the package's model, `card.json`."""
    return json.loads((FOLDER / "card.json").read_text())


def trust(run: Run, depth: int) -> str:
    """Return one line on the training data of a model and, for the package's model, its accuracy at a depth."""
    if run.folder != FOLDER:
        names = ", ".join(run.config.data.train)
        limit = f" up to depth {run.config.data.max_depth}" if run.config.data.max_depth else ""
        return f"The model was trained on {names}{limit}; `treestack report {run.folder}` shows how often it is right."
    accuracies = card()["accuracy"]
    if measured := accuracies.get(str(depth)):
        often = f"right for {measured['percent']:.0f} % of {measured['equations']:,} test equations of depth {depth}"
    else:
        often = f"not measured at depth {depth} (from 3 to {max(map(int, accuracies))} it was)"
    return f"The package's model: {card()['summary']}; {often}. A guess, no proof."


def pack(run: Run, folder: Path = FOLDER) -> None:
    """Make a finished run the model of the package: `python -m dgl_treestack.runs.pretrained RUN`."""
    config, environment = run.config, run.environment
    groups = records.grouped(row for name in config.data.test for row in run.read_records(name))
    accuracies = {
        str(depth): {"equations": len(group), "percent": round(records.accuracy(group), 1)}
        for depth, group in groups.items()
        if len(group) >= FEWEST
    }
    weights = run.best.read_bytes()
    train_set = f"{environment['equations']['train']:,} certified equations of depth 1-{config.data.max_depth}"
    content: dict[str, Any] = {
        "summary": f"{config.model.name}, trained on {train_set}",
        "accuracy": accuracies,
        "weights": {"file": "checkpoints/best.safetensors", "sha256": hashlib.sha256(weights).hexdigest()},
    }
    for name in ("config.toml", "vocabulary.json"):
        atomic.write_bytes(folder / name, (run.folder / name).read_bytes())
    atomic.write_text(folder / "environment.json", json.dumps({name: environment[name] for name in KEPT}, indent=1) + "\n")
    atomic.write_bytes(folder / content["weights"]["file"], weights)
    atomic.write_text(folder / "card.json", json.dumps(content, indent=1) + "\n")
    text = MODEL_CARD.format(
        summary=content["summary"].replace(",", "`,", 1),
        model=config.model,
        seed=run.seed,
        epochs=config.schedule.epochs,
        commit=environment["commit"],
        depths="\n".join(f"| {depth} | {a['equations']:,} | {a['percent']} |" for depth, a in accuracies.items()),
        max_depth=config.data.max_depth,
        weights=content["weights"],
    )
    atomic.write_text(folder / "MODEL_CARD.md", text)


if __name__ == "__main__":
    import sys

    pack(Run.open(sys.argv[1]))
