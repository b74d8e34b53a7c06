"""Small runs for tests."""

import os
import random
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from trees import random_equation

from dgl_treestack import Example, Run, plain_data
from dgl_treestack.data import formats
from dgl_treestack.experiments.reproduce import reproduce
from dgl_treestack.processes import Interrupted
from dgl_treestack.runs.configuration import Named, RunConfig
from dgl_treestack.runs.sequence_configuration import StreamConfig, StreamRecipe, StreamTests
from dgl_treestack.training.objective import Objective
from dgl_treestack.training.start import start

LEAVES = [("Symbol", "x"), ("Symbol", "y"), ("Integer", "2"), ("Number", "1.29")]
TINY_TESTS = StreamTests(largest=4, far=(6,), repeats=1, streamed=1)
RECIPES = StreamRecipe(updates=2), StreamRecipe(updates=2, rate=0.02)
FILM = ["(3 (2 It) (4 works))", "(2 (2 A) (3 (2 neat) (2 film)))", "(2 (2 It) (2 goes))", "(1 bad)", "(0 (0 Dull) (2 film))"]
STREAMS = StreamConfig("small", "anbn", "stack_rnn", {"hidden": 3, "stacks": 1, "capacity": 20}, 2, *RECIPES, TINY_TESTS)


def write_data(path: Path, count: int = 60, seed: int = 0, fold: str = "train", *, unary: bool = True) -> str:
    """Write random equations of depth 1-4 and return the path as text.

    The label, which a model can learn, is whether the left side has a sine, or a sum where `unary` is off.
    """
    rng = random.Random(seed)
    examples = []
    for i in range(count):
        choice = {} if unary else {"unary": ()}
        equation = random_equation(rng, rng.randrange(1, 5), leaves=LEAVES, **choice)
        examples.append(Example(equation, int(("sin" if unary else "Add") in equation.left.names), f"{fold}{i}", fold))
    formats.write(path, examples)
    return str(path)


def small_config(folder: Path, *, unary: bool = True, **changes: object) -> RunConfig:
    """Return the configuration of a run that takes a second: Tree-SMU with dropout, 3 epochs.

    unary: whether the data has operators of one argument.
    """
    data = {
        "train": [write_data(folder / "train.jsonl", 60, 0, unary=unary)],
        "validation": [write_data(folder / "validation.jsonl", 30, 1, "validation", unary=unary)],
        "test": [write_data(folder / "test.jsonl", 160, 2, "test", unary=unary)],
        "max_depth": 3,
    }
    described = {
        "name": "small",
        "model": {"name": "tree_smu", "hidden": 4, "dropout": 0.2, "settings": {"stack_size": 2}},
        "data": data,
        "optimizer": {"learning_rate": 0.01},
        "schedule": {"epochs": 3},
        "batch_size": 8,
        "checkpoint_steps": 2,
        **changes,
    }
    return plain_data.build(RunConfig, described)


def film_config(task: str = "node_classification", **data: object) -> RunConfig:
    """Return the configuration of a run on the phrases FILM, which are written to the folder where one is."""
    Path("film.txt").write_text("\n".join(FILM) + "\n")
    files = {part: ["film.txt"] for part in ("train", "validation", "test")}
    model = {"name": "tree_rnn", "hidden": 4, "vocabulary": "train", "tasks": [task]}
    described = {"name": "film", "batch_size": 2, "model": model, "schedule": {"epochs": 2}}
    return plain_data.build(RunConfig, {**described, "data": {"language": "sentiment_binary", **files, **data}})


def small_run(folder: Path, seed: int = 0, **changes: object) -> Run:
    """Train a small run in a folder, which gets its data, too."""
    return start(small_config(folder, **changes), seed, folder, quiet=True)


def table_of(experiment: str, folder: Path, **options: object) -> str:
    """Make the table of an experiment at the scale `tiny`, which a test defines, and return its text."""
    shown: list[str] = []
    assert reproduce([experiment], "tiny", folder, show=shown.append, **options) == 0
    return "".join(shown)


def go_on(run: Run, output_dir: Path | None = None) -> Run:
    """Resume a run, or that of its configuration in another folder."""
    return start(run.any_config, run.seed, output_dir or run.folder.parent, resume=True, quiet=True)


@contextmanager
def stopped_at(objective: type[Objective], step: int, number: int = signal.SIGTERM) -> Iterator[None]:
    """Send this process a signal at a step, counted from 1, of the trainings within."""
    real, count = objective.step, 0

    def counted(self, *arguments):
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), number)
        return real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "step", counted)
        yield
    assert count >= step, "the training has fewer steps"


def assert_same_when_stopped(config: Named, objective: type[Objective], stops: Iterable[Sequence[int]], folder: Path) -> None:
    """Runs that are stopped at some steps, counted anew each time they go on, end like one that was never stopped."""
    whole = start(config, 0, folder / "whole", quiet=True)
    for steps in stops:
        stopped = folder / f"stopped at {steps}"
        for step in steps:
            with stopped_at(objective, step), pytest.raises(Interrupted) as stop:
                start(config, 0, stopped, resume=True, quiet=True)
            assert stop.value.exit_code == 128 + signal.SIGTERM
        assert contents(go_on(whole, stopped).folder) == contents(whole.folder)


def contents(folder: Path) -> dict[str, bytes]:
    """All that runs in a folder leave that must not depend on time, machine or interruptions: name -> content."""
    ignored = {"environment.json", "times.jsonl", "train.log"}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ignored]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
