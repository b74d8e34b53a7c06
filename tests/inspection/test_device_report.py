"""The check of a device and the makers' report on it, of the CPU."""

import json
import sys

import pytest
import torch

from dgl_treestack import Model, cells
from dgl_treestack.cli import main
from dgl_treestack.inspection import device_check
from tools import device_report


@pytest.mark.slow
def test_every_model_is_the_same_on_the_device(monkeypatch):
    monkeypatch.setattr(device_check, "COMPARED", 3)
    checked = device_check.check("cpu", sizes=())
    assert {row["model"] for row in checked["models"]} >= {*cells.models(), "transformer"}
    assert all(row["ok"] and row["float64"] == 0 and row["float32"] == row["cpu"] < 1e-3 for row in checked["models"])


def test_the_report_has_what_makers_ask_besides(monkeypatch):
    monkeypatch.setattr(device_check, "WARM", 0)
    monkeypatch.setattr(device_check, "STEPS", 1)
    monkeypatch.setattr(device_check, "TIMED", ("tree_rnn",))
    report = device_report.report("cpu", ["tree_rnn"], (4,))
    assert report["problems"] == [] and report["measured on"] == "cpu"
    (row,), (step,) = report["models"], report["steps"]
    assert (row["model"], row["ok"], row["waits"]) == ("tree_rnn", True, [])
    assert (step["model"], step["batch"], step["waits"]) == ("tree_rnn", 4, []) and step["operations"] > 50
    json.dumps(report, allow_nan=False)


SLOW = [(float("nan"), "not finite"), (None, "RuntimeError: no kernel")]


@pytest.mark.parametrize(("change", "fault"), [(1.001, ""), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)])
def test_what_differs_on_the_device_is_found(monkeypatch, change, fault):
    losses = Model.losses

    def changed(self, output, batch):
        is_device = output.dtype == torch.float32
        if is_device and change is None:
            raise RuntimeError("no kernel")
        return losses(self, output, batch) * (change if is_device else 1.0)

    monkeypatch.setattr(Model, "losses", changed)
    monkeypatch.setattr(device_check, "SENSITIVE", 0.5)  # here the CPU in float32 is the device
    monkeypatch.setattr(device_check, "COMPARED", 4)
    ((row,), steps) = device_check.check("cpu", ["tree_rnn_tanh"], ()).values()
    assert row["ok"] is False and steps == [] and fault in row.get("fault", "")


def test_operations_are_counted_without_views(monkeypatch):
    x = torch.ones(3, 4, requires_grad=True)
    assert device_report.count_operations(lambda: (x.t() * 2).exp()) == 2
    assert device_report.count_operations((x.t() * 2).exp().sum().backward) >= 3
    monkeypatch.setitem(sys.modules, "torch.utils._python_dispatch", None)  # importing it raises ImportError
    assert device_report.count_operations(lambda: x * 2) is None


@pytest.mark.parametrize(("size", "limit"), [(32, 720), pytest.param(1024, 1000, marks=pytest.mark.slow)])
def test_a_step_of_tree_smu_dispatches_few_operations(size, limit):
    assert limit / 2 < device_report.operations("tree_smu", size, "cpu") <= limit


def test_a_model_that_deviates_is_a_problem(monkeypatch, tmp_path, capsys):
    good = {"model": "good", "ok": True, "float64": 0.0, "float32": 1e-7, "cpu": 1e-7}
    bad, ugly = {**good, "model": "bad", "ok": False, "float64": 0.5}, {"model": "ugly", "ok": False, "fault": "RuntimeError"}
    step = {"model": "good", "batch": 32, "waits": ["cells/_layers.py:130"], "milliseconds": 1.5, "epoch": 1.3}
    steps = [step, {"model": "good", "batch": 1024, "fault": "MemoryError: too large"}]
    monkeypatch.setattr(device_check, "check", lambda device, *_, **__: {"models": [good, bad, ugly], "steps": steps})
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--device", "cpu", "--output", str(tmp_path / "report.json")])
    problems, *tables = capsys.readouterr().out.split("\n\n")
    assert stop.value.code == 1 and "bad on cpu: 5.0e-01 from the CPU" in problems and "ugly on cpu: RuntimeError" in problems
    assert "good at batch 32 waits for cpu in cells/_layers.py:130" in problems
    assert "good at batch 1024 on cpu: MemoryError: too large" in problems
    rows = [[line.split() for line in table.splitlines()[1:]] for table in tables]
    assert rows[0][1:3] == [["good", "0.0e+00", "1.0e-07", "1.0e-07"], ["bad", "5.0e-01", "1.0e-07", "1.0e-07", "deviates"]]
    assert rows[1] == [["good", "32", "1", "1.5", "1.3"], ["good", "1024", "MemoryError:", "too", "large"]]
    assert json.loads((tmp_path / "report.json").read_text())["measured on"] == "cpu"


def test_a_device_that_is_not_there(treestack):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "'cuda' is not available here" in treestack("doctor", "--device", "cuda", code=2)
