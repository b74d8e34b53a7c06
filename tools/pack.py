"""Make a finished run a model of the package: `python -m tools.pack RUN NAME`."""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch

from dgl_treestack import atomic, resources
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Table
from dgl_treestack.model.model import Model
from dgl_treestack.results import metrics
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.run import Run

KEPT = ("seed", "config", "versions", "commit", "kernels", "data", "equations")  # of a run's environment
FEWEST = 100  # minimum equations of a depth, or a range of depths, for an accuracy in the card
RANGES = ((3, 7), (8, 13), (8, 19))
TEXTBOOK, CONSTANTS = resources.FOLDER / "textbook.tsv", resources.FOLDER / "constants.tsv"

MODEL_CARD = """# {name}

A model of the package: `{config.model.name}`, hidden {config.model.hidden}, {parameters:,} parameters, vocabulary
`{config.model.vocabulary}`. Trained on {equations:,} certified equations of depth 1-{config.data.max_depth}, seed {seed},
{config.schedule.epochs} epochs, of which the one with the best validation accuracy. Commit {commit}.

It says how likely an equation over the 29 operators of the papers is to hold. It reads the tree and evaluates nothing: its
answer is a guess, no proof. `treestack verify` and `treestack complete` print a numeric check beside it; believe that.

| depth | test equations | right, per cent |
|---|---|---|
{depths}

| test set | depths | right, per cent |
|---|---|---|
{sets}

{hold:.0f} % of the test equations hold. Depths above {config.data.max_depth} were not trained on.
Expected calibration error of the probabilities, per cent: {calibration}.

Of fifty textbook identities and fifty near misses (`textbook.tsv`, not used in training) it is right about {textbook[right]}:
{textbook[identities]} identities and {textbook[near_misses]} near misses.

Of fifty true and fifty false equations without variables, such as `2**10 = 1024` (`constants.tsv`), it is right about
{constants[right]}: {constants[identities]} true and {constants[near_misses]} false ones.

## Limits

- It was trained on pairs of a true and a false equation made from axioms, not on mathematics as people write it.
- Leaves in the training data: {leaves}. Other numbers have rows in the vocabulary that were never trained. `verify` and
  `complete` rename other variables to these before they ask; equations with more than {variables} variables they cannot rename.
- {of_two_variables:.0f} % of the training equations have two variables or more.

Weights: `{weights[file]}`, SHA-256 `{weights[sha256]}`. Data: `environment.json` has checksums.
Made by `python -m tools.pack RUN {name}`.
"""


def pack(run: Run, name: str, folder: Path | None = None) -> None:
    """Write a run, and its description, into the folder of the package's models."""
    folder = pretrained.FOLDER / name if folder is None else folder
    config, environment, model = run.config, run.environment, run.load_model()
    table_of_set = {
        data.removeprefix("data/").partition(".jsonl")[0]: table
        for data in run.evaluated_data()
        if len(table := without_validation(run.read_records(data)))
    }
    answers = records.joined(table_of_set.values())
    accuracy = accuracy_by_depth(answers)
    weights, examples = run.best.read_bytes(), formats.read_examples(config.data.train)
    leaves = leaves_of(examples)
    variables = [{text for _, kind, text in example.equation.leaves() if kind == "Symbol"} for example in examples]
    content: dict[str, Any] = {
        "summary": f"{config.model.name}, trained on {environment['equations']['train']:,} certified equations of depth "
        f"1-{config.data.max_depth}",
        "accuracy": accuracy,
        "sets": {name: accuracy_of_depths(table) for name, table in table_of_set.items()},
        "calibration": {name: round(metrics.calibration_error(table), 2) for name, table in table_of_set.items()},
        "textbook": right_about(model, TEXTBOOK),
        "constants": right_about(model, CONSTANTS),
        "variables": [text for kind, text in leaves if kind == "Symbol"],
        "leaves": [text for _, text in leaves],
        "weights": {"file": "checkpoints/best.safetensors", "sha256": hashlib.sha256(weights).hexdigest()},
    }
    for file in ("config.toml", "vocabulary.json"):
        atomic.write_bytes(folder / file, (run.folder / file).read_bytes())
    kept_environment = {key: environment[key] for key in (*KEPT, *({"resumed"} & environment.keys()))}
    atomic.write_text(folder / "environment.json", json.dumps(kept_environment, indent=1) + "\n")
    atomic.write_bytes(folder / content["weights"]["file"], weights)
    atomic.write_text(folder / "card.json", json.dumps(content, indent=1) + "\n")
    text = MODEL_CARD.format(
        name=name,
        config=config,
        seed=run.seed,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        equations=environment["equations"]["train"],
        commit=environment["commit"],
        depths="\n".join(f"| {depth} | {a['equations']:,} | {a['percent']} |" for depth, a in accuracy.items()),
        sets="\n".join(
            f"| `{name}` | {depths} | {percent} |"
            for name, of_depths in content["sets"].items()
            for depths, percent in of_depths.items()
        ),
        calibration=", ".join(f"{error} (`{data}`)" for data, error in content["calibration"].items()),
        hold=records.share(answers["label"]),
        textbook=content["textbook"],
        constants=content["constants"],
        of_two_variables=100 * sum(len(names) > 1 for names in variables) / len(variables),
        leaves=", ".join(content["leaves"]),
        variables=len(content["variables"]),
        weights=content["weights"],
    )
    atomic.write_text(folder / "MODEL_CARD.md", text)


def without_validation(table: Table) -> Table:
    """Return the records of equations that are not of a validation set, by which settings were chosen."""
    return table.filter(pl.col("split") != "validation")


def accuracy_of_depths(table: Table) -> dict[str, float]:
    """Return the accuracy in per cent over the ranges of depths that results are reported for."""
    groups = {f"{low}-{high}": table.filter(pl.col("depth").is_between(low, high)) for low, high in RANGES}
    return {name: round(records.accuracy(group), 1) for name, group in groups.items() if len(group) >= FEWEST}


def accuracy_by_depth(table: Table) -> dict[str, dict[str, float]]:
    """Return the number of equations and the accuracy in per cent of every depth with `FEWEST` equations or more."""
    return {
        str(depth): {"equations": len(group), "percent": round(records.accuracy(group), 1)}
        for depth, group in records.by(table).items()
        if len(group) >= FEWEST
    }


def right_about(model: Model, file: Path) -> dict[str, int]:
    """Return how many of the true and of the false equations of a file a model is right about."""
    examples = list(formats.read(file))
    scores = model.score([example.equation for example in examples], task="verification")
    labels = torch.tensor([example.label == 1 for example in examples])
    right = (scores > 0) == labels
    return {"right": int(right.sum()), "identities": int(right[labels].sum()), "near_misses": int(right[~labels].sum())}


def leaves_of(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Return the classes and texts of the leaves that occur, variables first."""
    leaves = {(kind, text) for example in examples for _, kind, text in example.equation.leaves()}
    order = {text: place for place, text in enumerate("xyzwu")}
    return sorted(leaves, key=lambda leaf: (leaf[0] != "Symbol", order.get(leaf[1], len(order)), leaf))


if __name__ == "__main__":
    pack(Run.open(sys.argv[1]), sys.argv[2])
