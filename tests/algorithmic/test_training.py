"""From untrained restarts to tables: a net of the authors' program, training that finds the algorithm, and what is kept."""

import dataclasses
import functools
import json
import shutil

import pytest
import torch
from stack_rnn_golden import GOLDEN, of_the_program

from dgl_treestack.algorithmic import experiment, tables, testing
from dgl_treestack.algorithmic.experiment import Extent
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.models import NetModel, models
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import Recipe, entropy, train
from dgl_treestack.data import records
from dgl_treestack.generators import torch_generator
from dgl_treestack.results import run_files
from dgl_treestack.sequence import ListRNN, StackRNN

TRAINED = GOLDEN["trained_anbn"]


def drawn_net(cell, seed):
    net = Net(cell)
    net.reset_parameters(torch_generator(seed, "restarts"))
    return net


@pytest.fixture(scope="module")
def authors_net():
    """The net that the authors' program trained on a^n b^n, as one restart."""
    case = {
        "weights": {name: TRAINED[name] for name in "UADPV"},
        "k": 2,
        "stack_size": 200,
        "noop": False,
        "use_R": False,
        "hard": False,
    }
    cell, output = of_the_program(case)
    net = Net(StackRNN(cell.inputs, cell.hidden, stacks=1, capacity=200, restarts=1)).double()
    net.load_state_dict(
        {f"cell.{name}": value.unsqueeze(0) for name, value in cell.state_dict().items()} | {"V": output.unsqueeze(0)}
    )
    return net


def test_the_authors_net_is_right_for_every_size_from_empty_stacks(authors_net):
    shares = testing.share_correct(tasks()["anbn"], authors_net, range(2, 60), "emptied", 0)
    assert shares.tolist() == [[1.0] * 58]


def test_it_is_right_in_a_stream_too(authors_net):
    """200 sequences of every size without a pause, as in the authors' program; where it goes wrong there: docs/log."""
    assert testing.share_correct(tasks()["anbn"], authors_net, range(2, 7), "stream", 0, repeats=200).tolist() == [[1.0] * 5]


@pytest.mark.slow
def test_restarts_find_the_counter(tmp_path):
    """A small Stack RNN on a^n b^n, trained for n up to 8: after rounding, some are right far beyond."""
    task = tasks()["anbn"]
    net = drawn_net(StackRNN(2, 10, stacks=2, capacity=40, restarts=8), 1)
    train(task, net, Recipe(updates=700, largest=8), 1)
    before = entropy(task, net, 1)
    train(task, net, Recipe(updates=250, rate=0.02, largest=8, curriculum=0.0, beta=60.0, stages=20), 1)
    assert net.cell.beta == pytest.approx(60.0) and before.min() < 0.1
    for hard in (False, True):
        with testing.tested_as(net, hard=hard, capacity=100):
            shares = testing.share_correct(task, net, range(2, 41), "emptied", 0)
        best = int(entropy(task, net, 1).argmin())
        assert shares[best].min() == 1.0 and net.cell.hard is False and net.cell.capacity == 40
    left = testing.prune(task, net, 1)
    with testing.tested_as(net, hard=True, capacity=100):
        assert left[best] in (1, 2) and testing.share_correct(task, net, range(2, 41), "emptied", 0)[best].min() == 1.0
    (first, *rest) = testing.trace(task, net, best, 0)
    assert first["symbol"] == "b" and [row["symbol"] for row in rest] == list("aaaaaabbbbbb")
    assert all(abs(stack["push"] + stack["pop"] - 1) < 1e-3 for row in rest for stack in row["stacks"])
    assert [row["next"] for row in rest[7:]] == list("bbbba") and len(rest[0]["stacks"]) == left[best]


def test_everything_is_kept_and_nothing_done_twice(tmp_path):
    task, extent = tasks()["anbn"], Extent(restarts=2, share=0.003, largest=4, far=(6,), repeats=1, streamed=1)
    model = next(model for model in models(task) if model.label == "Stack RNN 40+10")
    rows = experiment.run(task, model, extent, 0, tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "records.parquet",
        "nets.safetensors",
        "summary.json",
        "trace.jsonl",
        "DONE",
    }
    assert len(rows) == 2 * 2 * 2 * (2 * 3 + 1), (
        "rounded or not, restarts, hard or not, two ways of three sizes and the far one"
    )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(summary["entropy"]) == 2 and summary["recipe"]["updates"] == 12 and len(summary["stacks left"]) == 2

    def refuse(*sizes):
        raise AssertionError("trained again")

    again = NetModel(model.label, model.sizes, refuse, model.recipe, model.rounding)
    table = records.read(tmp_path / "run" / "records.parquet")
    assert experiment.run(task, again, extent, 0, tmp_path / "run") == table.rows(named=True)
    assert table.select(rows[0].keys()).rows(named=True) == rows


def test_a_stopped_run_goes_on_after_its_last_size(tmp_path, monkeypatch):
    task, extent = tasks()["anbn"], Extent(restarts=2, share=0.005, largest=4, far=(6,), repeats=1, streamed=1)
    model = next(model for model in models(task) if model.label == "RNN")
    model = dataclasses.replace(model, sizes=({"hidden": 4}, {"hidden": 6}))
    rows = experiment.run(task, model, extent, 0, tmp_path / "at once")
    monkeypatch.setattr(experiment, "_origin", lambda: "elsewhere")
    experiment.train_size(task, model, 0, extent, 0, tmp_path / "stopped")
    monkeypatch.undo()
    trained = []
    monkeypatch.setattr(experiment, "train", lambda *args, **options: trained.append(args[1]) or train(*args, **options))
    assert experiment.run(task, model, extent, 0, tmp_path / "stopped") == rows
    assert [net.cell.hidden for net in trained] == [6]
    summary = json.loads((tmp_path / "stopped" / "summary.json").read_text())
    assert len(summary["trained at"]) == 2 and summary["trained at"][0] == "elsewhere"
    assert not list(tmp_path.glob("*/size-*"))


def test_what_a_run_depends_on_is_in_its_name():
    task = tasks()["anbn"]
    model = next(model for model in models(task) if model.label == "Stack RNN 40+10")
    changed = [
        dataclasses.replace(model, build=functools.partial(StackRNN, stacks=10, noop=True, capacity=80)),
        dataclasses.replace(model, build=functools.partial(ListRNN, lists=10, capacity=80)),
        dataclasses.replace(model, recipe=dataclasses.replace(model.recipe, goal=0.1)),
    ]
    names = {experiment.fingerprint(variant, Extent()) for variant in (model, *changed)} | {
        experiment.fingerprint(model, Extent(repeats=9))
    }
    assert len(names) == 5


@pytest.mark.slow
def test_table_and_figures(tmp_path, monkeypatch):
    extent = Extent(restarts=2, share=0.001, largest=4, far=(5,), repeats=1, streamed=1)
    monkeypatch.setitem(tables.EXTENTS, "tiny", extent)
    few = {name: task for name, task in tasks().items() if name in ("anb2n", "memorization")}
    monkeypatch.setattr(tables, "tasks", lambda: few)
    one_size = {name: [dataclasses.replace(m, sizes=m.sizes[:1]) for m in models(task)] for name, task in few.items()}
    monkeypatch.setattr(tables, "models", lambda task: one_size[task.name])
    shown = tables.reproduce(tmp_path, "tiny", 0)
    assert all((run / "DONE").exists() for run in tables.runs(tmp_path, "tiny", 0))
    assert len(tables.runs(tmp_path, "smoke", 0)) == 8 and not any(run.exists() for run in tables.runs(tmp_path, "smoke", 0))
    text = (tmp_path / "table.md").read_text()
    assert text.count("\n| a^n b^2n |") == 6 + 4 and "treestack reproduce algorithmic --scale tiny" in text and text == shown
    line = next(line for line in text.splitlines() if line.startswith("| a^n b^2n | Stack RNN 40+10, rounded | 100 |"))
    (folder,) = (tmp_path / "runs").glob("anb2n-stack_rnn_40-10-*-0")
    rows = records.read(folder / "records.parquet").rows(named=True)
    rounded = [row for row in rows if row["rounded"] and row["protocol"] == "stream" and row["hard"] and row["depth"] <= 4]
    chosen = min(rounded, key=lambda row: row["entropy"])["restart"]
    share = 100 * sum(row["correct"] for row in rounded if row["restart"] == chosen) / 3
    assert f"{share:.1f} (" in line.split("|")[7]
    emptied = [row for row in rows if row["rounded"] and row["protocol"] == "emptied" and not row["hard"]]
    best = min(emptied, key=lambda row: row["entropy"])["restart"]
    right = [row["depth"] for row in sorted(emptied, key=lambda row: row["depth"]) if row["restart"] == best and row["correct"]]
    holds = max((n for n in right if set(range(2, n + 1)) <= set(right)), default=0)
    assert line.split("|")[9].split(";")[0].strip() == str(holds)
    of_restart = [
        sum(row["correct"] for row in emptied if row["restart"] == restart and row["depth"] <= 4) for restart in (0, 1)
    ]
    worst, middle, best = (f"{100 * share / 3:.0f}" for share in (min(of_restart), sum(of_restart) / 2, max(of_restart)))
    assert line.split("|")[8].split(";")[0].strip() == f"{worst}, {middle}, {best}"
    drawn = {path.name for path in tmp_path.iterdir()}
    assert {"length.csv", "length.svg", "length.png", "actions.svg", "actions_memorization.svg"} <= drawn

    run_files.write(tmp_path / "records.zip", "algorithmic", tables.runs(tmp_path, "tiny", 0), tables.KEPT)
    again = tmp_path / "again"
    run_files.restore(tmp_path / "records.zip", again / "runs", tables.KEPT)
    assert tables.reproduce(again, "tiny", 0, training=False) == text
    assert (again / "actions_memorization.svg").read_bytes() == (tmp_path / "actions_memorization.svg").read_bytes()

    assert "trained at" not in text
    summary = json.loads((again / "runs" / folder.name / "summary.json").read_text())
    summary["trained at"].append("elsewhere")
    (again / "runs" / folder.name / "summary.json").write_text(json.dumps(summary))
    of_two_places = tables.reproduce(again, "tiny", 0, training=False)
    assert "; (2) elsewhere." in of_two_places and of_two_places.count("(1) |") == 7 and of_two_places.count("(1), (2) |") == 1

    left, only = tmp_path / "left", next((tmp_path / "runs").glob("anb2n-rnn-*"))
    shutil.copytree(only, left / "runs" / only.name)
    tables.reproduce(left, "tiny", 0, training=False)
    assert {path.name for path in left.iterdir()} == {"runs", "table.md", "table.csv"}, "no curve, no trace"


def test_initial_values_are_the_sum_of_three_draws():
    net = drawn_net(StackRNN(3, 40, restarts=16), 0)
    for parameter in net.parameters():
        assert parameter.abs().max() <= 0.3 and parameter.std().item() == pytest.approx(0.1, rel=0.1)
    assert torch.equal(net.V, drawn_net(StackRNN(3, 40, restarts=16), 0).V)
