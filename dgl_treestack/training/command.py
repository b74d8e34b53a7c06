"""`treestack train`, `evaluate` and `verify`."""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import truth
from dgl_treestack.data import records
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Equation
from dgl_treestack.processes import follow_parent
from dgl_treestack.resources import find_config
from dgl_treestack.results.metrics import classification
from dgl_treestack.runs import configuration
from dgl_treestack.runs.evaluation import evaluate, make_records
from dgl_treestack.runs.pretrained import trust
from dgl_treestack.runs.run import Run
from dgl_treestack.training.interruption import Interrupted
from dgl_treestack.training.start import check_seeds, check_stackable, start, start_many, start_stacked


def train_all(
    names: Sequence[str],
    output_dir: Path,
    seeds: Sequence[int],
    *,
    assignments: Sequence[str],
    device: str,
    jobs: int,
    stacked: bool,
    resume: bool,
    quiet: bool,
) -> int:
    """Train every configuration with every seed. Returns the exit code.

    stacked: the seeds of a configuration are computed as one.
    """
    if not names:
        raise ConfigurationError("Name at least one configuration, such as configs/quickstart/tree_smu.toml.")
    check_seeds(seeds)
    if stacked and jobs > 1:
        raise ConfigurationError("Stacked seeds are one process: no --jobs with --stacked.")
    follow_parent()
    configs = {name: configuration.override(configuration.load(find_config(name)), assignments) for name in names}
    for config in configs.values() if stacked else ():
        check_stackable(config)
    pairs = [(name, seed) for name in names for seed in seeds]
    if jobs > 1 and len(pairs) > 1:
        flags = ["--output-dir", str(output_dir), "--device", device]
        flags += ["--set", *assignments] if assignments else []
        flags += ["--resume"] * resume + ["--quiet"] * quiet
        return start_many([["train", name, "--seed", str(seed), *flags] for name, seed in pairs], jobs)
    torch.set_num_threads(1)  # states are too small for a second thread to help, and runs share the machine
    if quiet:
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("dgl_treestack").setLevel(logging.INFO)
        logging.getLogger("dgl_treestack").propagate = False
    groups = [(name, seeds) for name in names] if stacked else [(name, [seed]) for name, seed in pairs]
    for name, several in groups:
        try:
            if stacked:
                start_stacked(configs[name], several, output_dir, device=device, resume=resume, quiet=quiet)
            else:
                start(configs[name], several[0], output_dir, device=device, resume=resume, quiet=quiet)
        except Interrupted as stop:
            print(stop, file=sys.stderr)
            return stop.exit_code
    return 0


def evaluate_file(run: Path, data: str, *, output: Path | None, engine: str, precision: str, as_json: bool) -> None:
    """Evaluate a run on a file and print its accuracy, over all and by depth."""
    rows = evaluate(Run.open(run), data, output=output, engine=engine, dtype=getattr(torch, precision))
    judged = [row for row in rows if row["correct"] is not None]
    depths = {depth: _cell(group) for depth, group in records.by_depth(judged).items()}
    overall = classification(judged) if judged else {}
    if as_json:
        print(json.dumps({"equations": len(rows), **overall, "by_depth": depths}, indent=1))
        return
    print(f"{len(rows)} equations, {len(judged)} that can be judged")
    print(", ".join(f"{name} {value:.1f} %" for name, value in overall.items()))
    for depth, cell in depths.items():
        beside = "" if cell["majority"] is None else f" (majority {cell['majority']:.1f})"
        print(f"  depth {depth:>3}: {cell['count']:>6} equations, {cell['accuracy']:5.1f} %{beside}")


def _cell(group: list[records.Record]) -> dict[str, Any]:
    labels = any(row["label"] is not None for row in group)
    majority = records.majority(group) if labels else None
    return {"count": len(group), "accuracy": records.accuracy(group), "majority": majority}


def verify_equation(text: str, run: Run, *, as_json: bool) -> None:
    """Print the model's probability and the numeric verdict, say when they disagree, and how far to trust the model."""
    equation = Equation.parse(text)
    verdict = truth.judge(equation)
    answer = ask(run, equation)
    believes = answer["probability"] > 0.5
    known = {"holds": True, "refuted": False}.get(verdict.verdict)
    answer["verdict"] = verdict.verdict
    answer["agree"] = None if known is None else known == believes
    if as_json:
        print(json.dumps(answer, indent=1))
        return
    print(f"{equation}   (depth {equation.depth})")
    print(f"model    P(correct) = {answer['probability']:.3f}")
    print(f"numeric  {describe_verdict(verdict)}")
    if answer["agree"] is False:
        print("The model and the numeric check disagree; believe the check.")
    print(trust(run, equation.depth))


def ask(run: Run, equation: Equation) -> dict[str, Any]:
    """The model's score and probability for an equation."""
    model = run.load_model()
    dataset = model.prepare([Example(equation, id="asked")], "verification")
    (record,) = make_records(model, dataset)
    probability = float(torch.sigmoid(torch.tensor(record["score"])))
    return {"equation": str(equation), "score": record["score"], "probability": probability}


def describe_verdict(verdict: truth.Verdict) -> str:
    """One line on a numeric verdict, with the witness against the equation when there is one."""
    line = f"{verdict.verdict}: {verdict.agreeing} of {verdict.points} defined points agree ({verdict.precision})"
    witness = verdict.witness
    if witness is None:
        return line
    place = ", ".join(f"{name} = {_short(value)}" for name, value in witness.variables.items())
    return f"{line}; {'at ' + place + ' ' if place else ''}the sides are {_short(witness.left)} and {_short(witness.right)}"


def _short(value: complex) -> str:
    return f"{value.real:.4g}" if value.imag == 0 else f"{value:.4g}"
