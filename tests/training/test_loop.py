import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from each_case import assert_each, assert_raises, cases
from small_runs import STREAMS, assert_same_when_stopped, contents, go_on, small_config, small_run, write_data

from dgl_treestack import MATH, Model, Run, TreestackError, Vocabulary, _torch, plain_data
from dgl_treestack.algorithmic import training as testing
from dgl_treestack.data import formats, records
from dgl_treestack.errors import CheckpointError, ConfigurationError, DivergenceError
from dgl_treestack.language.models import LanguageModel
from dgl_treestack.model.signals import NodeSignals
from dgl_treestack.processes import Interrupted
from dgl_treestack.results import run_result
from dgl_treestack.runs import configuration, evaluation
from dgl_treestack.runs.environment import origin_of
from dgl_treestack.runs.sequence_configuration import TextConfig
from dgl_treestack.runs.weights import read_weights, write_weights
from dgl_treestack.training.objective import Counts
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.start import prepare, start
from dgl_treestack.training.trees import TreeObjective


def test_a_run_leaves_its_files_and_times(tmp_path):
    """The best weights are those of the best epoch; seeds differ and repeat."""
    run = small_run(tmp_path, 3)
    assert run.folder == tmp_path / "small-3"
    named = {"config.toml", "environment.json", "vocabulary.json", "metrics.jsonl", "times.jsonl", "train.log", "DONE"}
    named |= {f"checkpoints/{name}.safetensors" for name in ("best", "last")}
    named |= {f"records/{name}" for name in ("validation.parquet", "test.parquet", "sources.json")}
    assert {str(path.relative_to(run.folder)) for path in run.folder.rglob("*") if path.is_file()} == named
    rows = run.read_metrics()
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    environment = json.loads((run.folder / "environment.json").read_text())
    assert (environment["seed"], environment["config"]) == (3, small_config(tmp_path).hash)
    assert environment["versions"]["torch"] == torch.__version__
    table = records.read(run.folder / "records" / "test.parquet")
    assert table["id"].to_list() == [f"test{i}" for i in range(160)]
    assert set(table["split"]) == {"test"}
    best = max(rows, key=lambda row: row["validation_accuracy"])
    assert read_weights(run.best)[1] == {"epoch": best["epoch"], "quality": best["validation_accuracy"]}
    table = records.read(run.folder / "records" / "validation.parquet")
    assert records.accuracy(table.filter(table["depth"] <= 3)) == pytest.approx(best["validation_accuracy"])
    again, other = (start(run.config, seed, tmp_path / "b", quiet=True) for seed in (3, 1))
    assert contents(run.folder) == contents(again.folder) and run.metrics.read_text() != other.metrics.read_text()
    # CPU time is added up over processes
    (times,) = run.read_times()
    assert times["epoch"] == 3 and 0 < times["cpu_seconds"] < 60
    run.done.unlink()
    again = go_on(run)
    assert [row["epoch"] for row in again.read_times()] == [3, 3] and again.read_times()[0] == times
    seconds = run_result.with_origin(run_result.read(run.folder)).about["cpu_seconds"]
    assert seconds == sum(row["cpu_seconds"] for row in again.read_times())
    run.times.write_text("3")
    assert_raises(CheckpointError, "only the CPU time is lost", run.read_times)


def test_it_learns(tmp_path):
    model = {"name": "tree_lstm", "hidden": 8}
    faster = {"schedule": {"epochs": 12}, "optimizer": {"learning_rate": 0.05}}
    rows = small_run(tmp_path, model=model, checkpoint_steps=1000, **faster).read_metrics()
    assert rows[-1]["train_loss"] < 0.5 * rows[0]["train_loss"]
    assert rows[-1]["train_accuracy"] > 90


def test_every_epoch_has_an_order_and_every_step_a_dropout_of_its_own(tmp_path, noted):
    """With weights that stay, and one equation many times, losses differ by dropout alone."""
    steps = noted(TreeObjective, "step", lambda counts, _, batch, *__: (int(batch[1].item()), counts.loss_sum))
    model = {"name": "tree_rnn", "hidden": 16, "dropout": 0.5}
    config = small_config(tmp_path, batch_size=1, optimizer={"learning_rate": 0.0}, model=model)
    (tmp_path / "train.jsonl").write_text("".join(f'{{"id": "{i}", "label": 1, "text": "sin(x) = y"}}\n' for i in range(8)))
    start(config, 0, tmp_path, quiet=True)
    positions, losses = zip(*steps, strict=True)
    orders = [tuple(order) for order in np.reshape(positions, (3, 8))]
    assert len(set(orders)) == 3 and all(sorted(order) == list(range(8)) for order in orders)
    assert len(set(losses)) == len(losses) == 24


def test_subnormal_numbers_are_zero_while_training_and_evaluating_and_only_then(tmp_path, noted):
    small = torch.tensor(1e-38)
    steps, forwards = (noted(*of, lambda *_: float(small * 0.1)) for of in ((TreeObjective, "step"), (Model, "forward")))
    config = small_config(tmp_path, schedule={"epochs": 1})
    run = start(config, 0, tmp_path / "runs", quiet=True)
    assert set(steps) == set(forwards) == {0.0}
    forwards.clear()
    evaluation.answers(run.load_model(), run.load_model().prepare(formats.read_examples(config.data.test[0])))
    assert forwards == [0.0] and float(small * 0.1) > 0, "not after the batch"

    with pytest.raises(ZeroDivisionError), _torch.subnormals_as_zero():
        with _torch.subnormals_as_zero():
            assert small * 0.1 == 0
        assert small * 0.1 == 0
        raise ZeroDivisionError
    assert small * 0.1 > 0


@pytest.mark.parametrize("change", [{"commit": "f" * 12}, {"device": "NVIDIA H200"}, {"processor": "another"}])
def test_going_on_elsewhere_is_recorded(tmp_path, caplog, change):
    run = small_run(tmp_path, schedule={"epochs": 1})
    now = {key: run.environment[key] for key in ("commit", "device", "processor", "versions")}

    def again():
        run.done.unlink()
        return go_on(run).environment

    again()
    assert "goes on with another environment" not in caplog.text
    begun = {**run.environment, **change}
    run.write_environment(begun)
    resumed = [again(), again()][-1]  # the second time with the same environment as the first
    assert caplog.text.count("goes on with another environment") == 1 and "torch" not in caplog.text
    assert resumed == {**begun, "resumed": [{"epochs": 1, **now}]}
    assert origin_of(resumed) == f"{origin_of(begun)}, after epoch 1 {origin_of(now)}"

    run.write_environment(begun)
    run.last.unlink()  # killed before the first checkpoint
    assert again()["resumed"] == [{"epochs": 0, **now}]

    run.write_environment({**begun, "resumed": [{"epochs": "three"}]})
    assert_raises(CheckpointError, r"a resumption is .*three.* The run is damaged", run_result.read, run.folder)


def test_numbers_that_are_not_finite_stop_a_training(tmp_path, monkeypatch):
    """A loss, with the names of its batch; a gradient, before the step; weights that run away, at validation."""
    config, run = small_config(tmp_path, batch_size=20), Run(tmp_path / "small-0")
    run.create(config, 0, Run.description(Vocabulary.preset("canonical"), MATH), {})
    training = prepare(run, config, 0, quiet=True)
    table = training.model.cell.leaves.table
    before = table.clone()
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.utils, "get_total_norm", lambda gradients: torch.tensor(float("inf")))
        assert_raises(DivergenceError, "its gradient inf", training.train)
    assert torch.equal(table, before)
    with torch.no_grad():
        table.fill_(float("nan"))
    with pytest.raises(DivergenceError, match=r"epoch 1, step 1\. Batch: train\d+, .*\. Lower the learning rate") as caught:
        training.train()
    assert "and 12 more" in str(caught.value)
    assert "checkpoint" not in str(caught.value)  # there is none yet
    shutil.rmtree(run.folder)
    config = small_config(tmp_path, batch_size=200, optimizer={"learning_rate": 1e30}, schedule={"epochs": 1})
    assert_raises(DivergenceError, "The validation loss of small-0 is", start, config, 0, tmp_path, quiet=True)
    assert not (tmp_path / "small-0" / "DONE").exists()


def config_of(kind, folder):
    """The configuration of a short run on trees, a text or streams, with its data."""
    if kind == "trees":
        return small_config(folder)
    if kind == "text":
        for part in ("train", "valid", "test"):
            (folder / f"our.{part}.txt").write_text("one two three\n" * 40)
        return TextConfig("small", "lstm", 4, text=str(folder), epochs=2, streams=2)
    return STREAMS


@cases(
    ("trees", evaluation, "score"),
    ("trees", evaluation, "answers_on"),
    ("text", LanguageModel, "perplexity"),
    ("streams", testing, "share_correct"),
)
def test_a_signal_during_validation_or_the_last_evaluation_is_obeyed(tmp_path, kind, owner, function):
    config, real = config_of(kind, tmp_path), getattr(owner, function)
    whole, signals = start(config, 0, tmp_path / "whole", quiet=True), [signal.SIGTERM]

    def interrupted(*arguments, **options):
        if signals:  # once: a second one stops the program
            os.kill(os.getpid(), signals.pop())
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(owner, function, interrupted)
        start(config, 0, tmp_path / "stopped", quiet=True)
    assert contents(go_on(whole, tmp_path / "stopped").folder) == contents(whole.folder)


DAMAGES = {  # to a run, and what is said when it goes on
    "no best weights": (lambda run: run.best.unlink(), "only it had the best weights"),
    "no checkpoint of a training": (lambda run: shutil.copy(run.best, run.last), "no checkpoint of a training"),
    "a checkpoint of another model": (lambda run: write_weights(run.last, *ANOTHER), "does not fit the model"),
    "half a checkpoint": (lambda run: run.last.write_bytes(run.last.read_bytes()[:-50]), "not a safetensors file"),
}
for content in (b"[]", b"{}", b'{"seed": ', b"\xff"):
    damage = lambda run, content=content: (run.folder / "environment.json").write_bytes(content)  # noqa: E731
    DAMAGES[str(content)] = (damage, r"environment\.json")
ANOTHER = {"model/weight": torch.zeros(1)}, {"progress": {"learning_rate": 1.0}, "objective": {}}


@pytest.mark.parametrize("kind", ["trees", "text", "streams"])
def test_a_damaged_run_that_goes_on_is_one_error(tmp_path, kind):
    whole = start(config_of(kind, tmp_path), 0, tmp_path / "whole", quiet=True)
    whole.done.unlink()

    def check(damage, message):
        config = config_of(kind, tmp_path)
        damage(Run(shutil.copytree(whole.folder, tmp_path / "copy" / "small-0", dirs_exist_ok=True)))
        assert_raises(CheckpointError, message, start, config, 0, tmp_path / "copy", resume=True, quiet=True)

    assert_each(check, [(name, *case) for name, case in DAMAGES.items()])


@pytest.mark.parametrize(("kind", "file"), [("trees", "train.jsonl"), ("text", "our.train.txt")])
def test_data_that_changed_since_is_noticed(tmp_path, kind, file):
    run = start(config_of(kind, tmp_path), 0, tmp_path, quiet=True)
    run.done.unlink()
    (tmp_path / file).write_text((tmp_path / file).read_text() * 2)
    assert_raises(ConfigurationError, f"{file} has changed since", go_on, run)


def test_a_start_that_fails_leaves_no_folder(tmp_path):
    config, no_gpu = small_config(tmp_path), [] if torch.cuda.is_available() else [("a GPU", [], "not available", "cuda")]

    def check(changes, message, device="cpu"):
        with pytest.raises(TreestackError, match=message):
            start(plain_data.override(config, changes), 0, tmp_path, quiet=True, device=device)
        assert not (tmp_path / "small-0").exists()

    cases = [
        ("no file", ["data.train=absent.jsonl"], r"absent\.jsonl: Cannot be read"),
        ("no stack", ["model.settings.stack_size=0"], "'stack_size' is 0"),
        ("no model", ["model.name=tree_smw"], "Did you mean 'tree_smu'"),
        ("no data", ["data.train=[]", "data.validation=[]"], r"data\.train"),
    ]
    assert_each(check, cases + no_gpu)


def test_records_are_those_of_the_file_as_it_is_now_and_replace_none_of_another(tmp_path):
    run = small_run(tmp_path)
    before = (run.folder / "records" / "test.parquet").read_bytes()
    (tmp_path / "other").mkdir()
    path, kept = tmp_path / "other" / "test.jsonl", tmp_path / "kept.jsonl"
    other = write_data(path, 40, 5)
    evaluation.evaluate(run, other)
    assert run.has_records(other)
    path.rename(kept)
    write_data(path, 20, 6)
    assert not run.has_records(other)
    evaluation.evaluate(run, other)
    assert run.has_records(other) and len(run.read_records(other)) == 20
    kept.rename(path)
    assert len(run.read_records(other)) == 40
    path.unlink()
    assert len(run.read_records(other)) == 20, "the last that were made"
    assert (run.folder / "records" / "test.parquet").read_bytes() == before
    assert len(run.read_records(run.config.data.test[0])) == 160


def test_the_learning_rate_is_halved_and_training_ends_on_a_plateau(tmp_path):
    schedule = {"epochs": 50, "plateau": 1, "early_stopping": 4}
    rows = small_run(tmp_path, schedule=schedule, optimizer={"learning_rate": 0.02}).read_metrics()
    best, stale, rate = -1.0, 0, 0.02
    for row in rows:
        assert row["learning_rate"] == pytest.approx(rate)
        stale = 0 if row["validation_accuracy"] > best else stale + 1
        best = max(best, row["validation_accuracy"])
        rate *= 0.5 if stale else 1
    assert rate < 0.02 and (stale == 4 or len(rows) == 50)


def with_signals(folder, **changes):
    """Signals at nodes with all that came with them."""
    head = {"verification": {"compare": "slots"}}
    described = {
        "model": {"name": "tree_slots", "hidden": 8, "settings": {"slots": 2}, "head_settings": head},
        "signals": {"value": 1.0, "equivalence": 0.3, "points": 4, "rows": 20},
        "optimizer": {"learning_rate": 0.01, "clip": 0.5},
        "schedule": {"epochs": 3, "warmup": 5, "decay": "cosine"},
    }
    return small_config(folder, **{**described, **changes})


@pytest.mark.parametrize("kind", ["none", "zeros", "AdamW", "signals"])
def test_interrupted_anywhere_and_resumed_equals_never_stopped(tmp_path, kind):
    """With both conventions for gradients, an optimizer of torch, and signals at nodes and matrices that Muon takes."""
    if kind == "signals":
        config = plain_data.override(with_signals(tmp_path), ["model.hidden=16", "optimizer.method=muon"])
    else:
        optimizer = {"method": kind} if kind == "AdamW" else {"gradients": kind}
        config = small_config(tmp_path, optimizer={"learning_rate": 0.01, **optimizer})
    stops = {"none": [(1,), (5,), (8, 6)], "zeros": [(8, 6)]}.get(kind, [(11,)])
    assert_same_when_stopped(config, TreeObjective, stops, tmp_path)


def test_signals_at_nodes_are_learned_and_never_read_at_the_test(tmp_path, monkeypatch, noted):
    """Their loss falls, the weights of a run have their network, and an evaluation does not enter it."""
    losses = noted(NodeSignals, "forward", lambda loss, *_: loss)
    run = start(with_signals(tmp_path, schedule={"epochs": 8}, optimizer={"learning_rate": 0.03}), 0, tmp_path, quiet=True)
    assert len(losses) == 8 * 6 and sum(losses[-6:]) < 0.8 * sum(losses[:6])
    model = run.load_model()
    assert model.signals.predict_values(torch.zeros(3, 8)).shape == (3, 4, 3)
    assert any(name.startswith("signals.outer") for name in read_weights(run.best)[0])
    monkeypatch.setattr(NodeSignals, "forward", None)
    evaluation.evaluate(run, str(tmp_path / "test.jsonl"))


def test_the_learning_rate_of_a_step_is_that_of_its_place_in_the_run(tmp_path, noted):
    """It rises linearly, then falls by a cosine to zero."""
    schedule = configuration.ScheduleConfig(epochs=2, warmup=4, decay="cosine")
    factors = [schedule.rate_factor(step, 10) for step in range(20)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[4:] == sorted(factors[4:], reverse=True) and factors[12] == pytest.approx(0.5) and 0 < factors[-1] < 0.02
    assert configuration.ScheduleConfig(warmup=2).rate_factor(7, 10) == configuration.ScheduleConfig().rate_factor(0, 10) == 1.0
    rates, config = noted(RowOptimizer, "step", lambda _, __, rate: rate), with_signals(tmp_path)
    start(config, 0, tmp_path, quiet=True)
    steps = len(rates) // 3
    assert rates == [0.01 * config.schedule.rate_factor(step, steps) for step in range(3 * steps)] and steps > 4


def test_a_gradient_is_clipped_to_its_maximum_norm(tmp_path, noted):
    def norm(_, optimizer, rate):
        return float(torch.nn.utils.get_total_norm([p.grad for p in optimizer.parameters if p.grad is not None]))

    norms = noted(RowOptimizer, "step", norm)
    for clip in (0.0, 0.05):
        start(small_config(tmp_path, optimizer={"clip": clip}), 0, tmp_path / str(clip), quiet=True)
    unclipped, clipped = np.array_split(norms, 2)
    assert max(unclipped) > 0.1 and max(clipped) <= 0.05 * (1 + 1e-5)


def test_pairs_stay_together(tmp_path, monkeypatch):
    examples = formats.read_examples([write_data(tmp_path / "all.jsonl", 60)])
    paired = [dataclasses.replace(e, pair=f"p{i % 20}" if i < 40 else "") for i, e in enumerate(examples)]
    formats.write(tmp_path / "pairs.jsonl", paired)
    order = []

    def noted(self, batch, progress, watch):
        order.extend(paired[i] for i in batch[1])
        return Counts(0.0, 1)

    monkeypatch.setattr(TreeObjective, "step", noted)
    data = {"train": [str(tmp_path / "pairs.jsonl")], "validation": [str(tmp_path / "all.jsonl")], "pairs_together": True}
    start(small_config(tmp_path, data=data, schedule={"epochs": 1}), 0, tmp_path, quiet=True)
    assert sorted(example.id for example in order) == sorted(example.id for example in paired)
    pairs = [example.pair for example in order]
    assert all(pairs[pairs.index(f"p{i}") + 1] == f"p{i}" for i in range(20))
    assert [*filter(None, pairs)] != sorted(filter(None, pairs))


def test_a_folder_that_exists_is_not_overwritten(tmp_path):
    config = small_config(tmp_path)
    start(config, 0, tmp_path, quiet=True)
    other, another = plain_data.override(config, ["schedule.epochs=9"]), r"another configuration \(schedule.epochs \d, now 9\)"
    for new, resume, message in ((config, False, "--resume"), (other, False, another), (other, True, another)):
        assert_raises(ConfigurationError, message, start, new, 0, tmp_path, resume=resume, quiet=True)


def test_damaged_weights_are_one_error(tmp_path):
    run = small_run(tmp_path, schedule={"epochs": 1})
    whole = run.best.read_bytes()

    def check(content, message):
        run.best.unlink() if content is None else run.best.write_bytes(content)
        assert_raises(CheckpointError, message, run.load_model)

    def flipped(place):
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    write_weights(run.last, {"cell.leaves.table": torch.zeros(3, 3)}, {})
    cases = [(content, content, "not a safetensors file") for content in (whole[:-50], whole[:4], b"", b"\x80\x04pickle")]
    cases += [
        ("a weight", flipped(len(whole) - 9), "does not fit its checksum"),
        ("a number of the description", flipped(whole.index(b"quality") + 11), "does not fit its checksum"),
        ("none", None, "Is the run trained"),
        ("of another model", run.last.read_bytes(), "does not fit the model"),
    ]
    assert_each(check, cases)
    assert_raises(CheckpointError, "not a run folder", Run.open, tmp_path / "nothing")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_several_runs_saves_all_of_them(tmp_path, number, code):
    (tmp_path / "small.toml").write_text(configuration.dump(small_config(tmp_path, schedule={"epochs": 500})))
    command = [sys.executable, "-m", "dgl_treestack", "train", "small.toml", "--seeds", "0", "1", "2", "--jobs", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len([*tmp_path.glob("runs/*/checkpoints/last.safetensors")]) < 2:
        assert process.poll() is None
        time.sleep(0.005)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code
    assert errors.count("; saved.") == 2
    assert not (tmp_path / "runs" / "small-2").exists()
