"""From untrained restarts to tables: a net of the authors' program, training that finds the algorithm, and what is kept."""

import copy
import dataclasses
import shutil

import pytest
import torch
from each_case import cases
from small_runs import STREAMS, TINY_TESTS, assert_same_when_stopped, table_of
from stack_rnn_golden import GOLDEN, of_the_program

from dgl_treestack._torch import torch_generator
from dgl_treestack.algorithmic import training as testing
from dgl_treestack.algorithmic.learner import Net
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.training import Phase, entropy
from dgl_treestack.data import records
from dgl_treestack.errors import CheckpointError, ConfigurationError
from dgl_treestack.experiments import algorithmic
from dgl_treestack.experiments.algorithmic import configurations, label_of
from dgl_treestack.experiments.protocol import EXTENTS, SCALES, Extent, Scale
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.sequence_configuration import StreamRecipe
from dgl_treestack.runs.weights import read_weights, write_weights
from dgl_treestack.sequence import StackRNN
from dgl_treestack.training import loop
from dgl_treestack.training.start import start
from dgl_treestack.training.streams import StreamObjective


def train(task, net, recipe, seed):
    phase = Phase(task, net, recipe, seed)
    for segment in range(phase.segments):
        phase.train(segment)


def drawn_net(cell, seed):
    net = Net(cell)
    net.reset_parameters(torch_generator(seed, "restarts"))
    return net


def test_the_authors_net_is_right_for_every_size_from_empty_stacks_and_in_a_stream():
    """The net that the authors' program trained on a^n b^n, as one restart.

    In the stream 200 sequences of every size without a pause, as in their program, where all are right up to size 25.
    """
    trained = {"weights": {name: GOLDEN["trained_anbn"][name] for name in "UADPV"}, "k": 2, "stack_size": 200}
    cell, output = of_the_program(trained | dict.fromkeys(("noop", "use_R", "hard"), False))
    net = Net(StackRNN(cell.inputs, cell.hidden, stacks=1, capacity=200, restarts=1)).double()
    weights = {f"cell.{name}": value for name, value in cell.state_dict().items()} | {"V": output}
    net.load_state_dict({name: value.unsqueeze(0) for name, value in weights.items()})
    task = tasks()["anbn"]
    assert testing.share_correct(task, net, range(2, 60), "emptied", 0).tolist() == [[1.0] * 58]
    assert testing.share_correct(task, net, range(2, 7), "stream", 0, repeats=200).tolist() == [[1.0] * 5]


@pytest.mark.slow
def test_restarts_find_the_counter(tmp_path):
    """A small Stack RNN on a^n b^n, trained for n up to 8: after rounding, some are right far beyond."""
    task = tasks()["anbn"]
    net = drawn_net(StackRNN(2, 10, stacks=2, capacity=40, restarts=8), 1)
    train(task, net, StreamRecipe(updates=700, largest=8), 1)
    before = entropy(task, net, 1)
    train(task, net, StreamRecipe(updates=250, rate=0.02, largest=8, curriculum=0.0, beta=60.0, stages=20), 1)
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


def test_rate_and_sharpness_follow_the_recipe():
    """The rate is steady, then falls to a hundredth; the sharpness rises in stages, by a fixed factor."""
    recipe = StreamRecipe(updates=10, segment=1, rate=0.1, steady=0.5, beta=19.2, stages=5)
    phase = Phase(tasks()["anbn"], drawn_net(StackRNN(2, 4, stacks=1, capacity=20, restarts=2), 0), recipe, 0)
    seen = []
    for segment in range(phase.segments):
        phase.train(segment)
        seen.append((phase.optimizer.param_groups[0]["lr"], phase.net.cell.beta))
    rates, sharpness = zip(*seen, strict=True)
    assert rates == pytest.approx([0.1] * 6 + [0.1 * 0.01**share for share in (0.2, 0.4, 0.6, 0.8)])
    assert sharpness == pytest.approx([1.2 * 2**stage for stage in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)])


@pytest.mark.parametrize(("curriculum", "expected"), [(0.5, [2, 2, 3, 4, 4, 4, 5, 6, *[6] * 8]), (0.0, [6] * 16)])
def test_sizes_grow_linearly(noted, curriculum, expected):
    sizes = noted(testing.Streams, "take", lambda _, streams, __: streams.largest)
    recipe = StreamRecipe(updates=16, segment=4, largest=6, curriculum=curriculum)
    train(tasks()["anbn"], drawn_net(StackRNN(2, 4, stacks=1, capacity=20, restarts=2), 0), recipe, 0)
    assert sizes == expected


def test_restarts_that_are_no_better_go_on_from_their_best_at_half_the_rate(monkeypatch):
    """Once half of the updates are made; training ends when all rates are too small, and at the end all have their best."""
    entropies = iter(torch.tensor([[3.0, 3.0], [2.0, 4.0], [2.5, 2.0], [9.0, 9.0], [9.0, 1.0]]))
    monkeypatch.setattr(testing, "entropy", lambda *_: next(entropies))
    recipe = StreamRecipe(updates=10, segment=1, tokens=0, rate=3e-5, steady=0.5, halving=2)
    phase = Phase(tasks()["addition"], drawn_net(StackRNN(5, 4, stacks=1, capacity=20, restarts=2), 0), recipe, 0)
    shares, values = [], []
    for segment in range(10):
        phase.train(segment)
        if segment % 2:
            shares.append(phase.shares.tolist())
            values.append(phase.net.V.detach().clone())
    assert shares == [[1, 1], [1, 1], [0.5, 1], [0.25, 0.5], [0.125, 0.5]]
    best = [values[1][0], values[2][1]]
    assert torch.equal(values[2][0], best[0]) and all(torch.equal(values[3][i], best[i]) for i in (0, 1))
    assert torch.equal(values[4][0], best[0]) and not torch.equal(values[4][1], best[1])
    phase.shares[1] = 0.25
    assert phase.train(9) == (0.0, 0)


def test_without_a_compiler_nets_learn_by_autograd(monkeypatch):
    """The same at the first update, before stored activations are older than the weights."""
    recipe, values = StreamRecipe(updates=1, tokens=0), []
    for has_compiler in (True, False):
        if not has_compiler:
            monkeypatch.setattr(testing, "unavailable", lambda: "there is no C++ compiler")
        net = drawn_net(StackRNN(5, 4, stacks=1, capacity=20, noop=True, restarts=2), 0)
        train(tasks()["addition"], net, recipe, 0)
        values.append([parameter.detach() for parameter in net.parameters()])
    torch.testing.assert_close(*values)


def configuration(label, task="anbn", share=0.003):
    """Return a configuration of a task, with two restarts and few updates."""
    configs = configurations(tasks()[task], 2, share, TINY_TESTS)
    return next(config for config in configs if label_of(config) == label)


def test_a_run_leaves_its_tests_before_and_after_rounding(tmp_path):
    run = start(configuration("Stack RNN 40+10"), 0, tmp_path, quiet=True)
    files = {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()}
    weights = {f"checkpoints/{name}.safetensors" for name in ("best", "last", "trained")}
    described = {"config.toml", "environment.json", "vocabulary.json", "metrics.jsonl", "times.jsonl", "train.log", "DONE"}
    assert files == described | weights | {"records/answers.parquet", "trace.jsonl"}
    table = records.read(run.answers)
    # rounded or not, restarts, hard or not, two ways of three sizes and the far one
    assert len(table) == 2 * 2 * 2 * (2 * 3 + 1)
    assert set(table["set"]) == {f"{protocol}, {mode}" for protocol in testing.PROTOCOLS for mode in ("soft", "hard")}
    assert table.filter(table["rounded"])["stacks"].null_count() == 0
    assert [row["epoch"] for row in run.read_metrics()] == [1, 2] and run.best_epoch() == 2
    with pytest.raises(ConfigurationError, match="describes a run on an algorithmic task, not a run on trees"):
        run.config  # noqa: B018


@cases(
    ("Stack RNN 40+10", "anbn", (2, 1, 1), {"stacks": 2}),
    ("LSTM", "anbn", (1,), {"layers": 1}),
    ("Stack RNN 100+10", "addition", (5,), {"stacks": 2}),
)
def test_a_run_stopped_after_any_segment_goes_on_to_the_same_numbers(tmp_path, label, task, stops, smaller):
    config = configuration(label, task, share=0.015 if task == "anbn" else 0.0003)
    recipe = dataclasses.replace(config.recipe, halving=min(config.recipe.halving, 2))
    config = dataclasses.replace(config, recipe=recipe, settings={**config.settings, "hidden": 4, **smaller})
    assert_same_when_stopped(config, StreamObjective, [stops], tmp_path)
    assert Run(next(tmp_path.glob("whole/*"))).read_metrics()[0]["train_loss"] > 0


def test_a_run_killed_between_its_last_answers_and_its_checkpoint(tmp_path, monkeypatch):
    whole = start(STREAMS, 0, tmp_path / "whole", quiet=True)
    count = iter(range(9))

    def killed(*arguments):
        if next(count) == 1:  # the best weights of the second epoch
            raise KeyboardInterrupt
        return write_weights(*arguments)

    monkeypatch.setattr(loop, "write_weights", killed)
    with pytest.raises(KeyboardInterrupt):
        start(STREAMS, 0, tmp_path / "killed", quiet=True)
    monkeypatch.undo()
    again = start(STREAMS, 0, tmp_path / "killed", resume=True, quiet=True)
    assert records.read(again.answers).equals(records.read(whole.answers))
    assert [row["learning_rate"] for row in again.read_metrics()] == [0.1, 0.02], "those of their epochs"
    again.done.unlink()
    checkpoint = read_weights(again.last)
    for damage in ("generator", "least"):
        tensors, description = copy.deepcopy(checkpoint)
        tensors.pop(f"objective/{damage}", None)
        description["objective"].pop(damage, None)
        write_weights(again.last, tensors, description)
        with pytest.raises(CheckpointError, match="no checkpoint of a training"):
            start(STREAMS, 0, tmp_path / "killed", resume=True, quiet=True)


def test_neither_a_restart_that_diverges_nor_a_segment_without_a_scored_token_ends_a_run(tmp_path, monkeypatch):
    step = StreamObjective.step

    def diverges(self, *arguments):
        with torch.no_grad():
            self.model.V[0] = float("nan")
        return step(self, *arguments)

    monkeypatch.setattr(StreamObjective, "step", diverges)
    assert start(STREAMS, 0, tmp_path / "diverges", quiet=True).done.exists()
    monkeypatch.undo()
    config = dataclasses.replace(STREAMS, task="addition", restarts=1, recipe=StreamRecipe(updates=1, tokens=1))
    assert start(config, 0, tmp_path, quiet=True).done.exists()


@pytest.mark.slow
def test_table_and_figures(tmp_path, monkeypatch):
    few = [config for task in ("anb2n", "memorization") for config in configurations(tasks()[task], 2, 0.001, TINY_TESTS)]
    first_sizes = {(config.task, label_of(config)): config for config in reversed(few)}
    planned = [(config, 0) for config in few if config in first_sizes.values()]
    monkeypatch.setitem(EXTENTS, "tiny", Extent(2, 0.001, TINY_TESTS))
    monkeypatch.setitem(SCALES, "tiny", Scale("a test", {}, {}, (0,)))
    monkeypatch.setattr(algorithmic, "plan", lambda *arguments: planned)
    text, folder = table_of("algorithmic", tmp_path), tmp_path / "algorithmic"
    assert text.count("\n| a^n b^2n |") == 6 + 4 and "treestack reproduce algorithmic --scale tiny" in text
    assert (folder / "table.md").read_text() == text
    line = next(line for line in text.splitlines() if line.startswith("| a^n b^2n | Stack RNN 40+10, rounded | 100 |"))
    (run,) = (tmp_path / "runs").glob("anb2n-stack_rnn-40-*-0")
    rows = [row for row in records.read(Run(run).answers).rows(named=True) if row["rounded"]]
    hard = [row for row in rows if row["set"] == "stream, hard" and row["depth"] <= 4]
    chosen = min(hard, key=lambda row: row["entropy"])["restart"]
    share = 100 * sum(row["correct"] for row in hard if row["restart"] == chosen) / 3
    assert f"{share:.1f} (" in line.split("|")[7]
    emptied = [row for row in rows if row["set"] == "emptied, soft"]
    best = min(emptied, key=lambda row: row["entropy"])["restart"]
    right = [row["depth"] for row in sorted(emptied, key=lambda row: row["depth"]) if row["restart"] == best and row["correct"]]
    holds = max((n for n in right if set(range(2, n + 1)) <= set(right)), default=0)
    assert line.split("|")[9].split(";")[0].strip() == str(holds)
    small = [row for row in emptied if row["depth"] <= 4]
    of_restart = [sum(row["correct"] for row in small if row["restart"] == restart) for restart in (0, 1)]
    worst, middle, best = (f"{100 * share / 3:.0f}" for share in (min(of_restart), sum(of_restart) / 2, max(of_restart)))
    assert line.split("|")[8].split(";")[0].strip() == f"{worst}, {middle}, {best}"
    drawn = {path.name for path in folder.iterdir()}
    assert {"length.csv", "length.svg", "length.png", "actions.svg", "actions_memorization.svg"} <= drawn

    again = tmp_path / "again"
    assert table_of("algorithmic", again, train=False, from_records=[folder / "records.parquet"]) == text
    for name in ("actions_memorization.svg", "records.parquet"):
        assert (again / "algorithmic" / name).read_bytes() == (folder / name).read_bytes()

    assert "trained at" not in text
    begun = Run(run).environment
    Run(run).write_environment({**begun, "commit": "elsewhere"})
    of_two_places = table_of("algorithmic", tmp_path, train=False)
    assert "commit elsewhere" in of_two_places and of_two_places.count("(1) |") == 7 and of_two_places.count("(2) |") == 1

    left, only = tmp_path / "left", next((tmp_path / "runs").glob("anb2n-rnn-*"))
    shutil.copytree(only, left / "runs" / only.name)
    table_of("algorithmic", left, train=False)
    assert {path.name for path in (left / "algorithmic").iterdir()} == {"table.md", "table.csv", "records.parquet"}


def test_initial_values_are_the_sum_of_three_draws():
    net = drawn_net(StackRNN(3, 40, restarts=16), 0)
    for parameter in net.parameters():
        assert parameter.abs().max() <= 0.3 and parameter.std().item() == pytest.approx(0.1, rel=0.1)
    assert torch.equal(net.V, drawn_net(StackRNN(3, 40, restarts=16), 0).V)
