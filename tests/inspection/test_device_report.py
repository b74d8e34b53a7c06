"""The report on a device, of the CPU."""

import json
import random
import sys

import pytest
import torch

from dgl_treestack import _torch, cells
from dgl_treestack.cli import main
from dgl_treestack.data import formats
from dgl_treestack.inspection import device_report
from dgl_treestack.model.model import Model


@pytest.mark.slow
def test_every_model_is_the_same_on_the_device(monkeypatch):
    monkeypatch.setattr(device_report, "COMPARED", 6)
    report = device_report.report("cpu", sizes=(4,))
    assert {row["model"] for row in report["models"]} >= {*cells.models(), "transformer"}
    assert all(row["ok"] and row["float64"] == 0 and row["float32"] == row["cpu"] < 1e-3 for row in report["models"])
    assert [(row["model"], row["batch"]) for row in report["steps"]] == [(name, 4) for name in device_report.TIMED]
    assert all(row["operations"] > 50 and row["waits"] == [] for row in report["steps"])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (1.001, ""),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((float("nan"), "not finite"), (None, "no kernel"))),
    ],
)
def test_what_differs_on_the_device_is_found(monkeypatch, change, fault):
    losses = Model.losses

    def changed(self, output, batch):
        is_device = output.dtype == torch.float32
        if is_device and change is None:
            raise RuntimeError("no kernel")
        return losses(self, output, batch) * (change if is_device else 1.0)

    monkeypatch.setattr(Model, "losses", changed)
    monkeypatch.setattr(device_report, "SENSITIVE", 0.5)  # here the CPU in float32 is the device
    examples = formats.read_examples([device_report.DATA])[1:5]
    row = device_report._compare("tree_rnn_tanh", examples, "cpu")
    assert not row["ok"] and fault in row.get("fault", "")


def test_operations_are_counted_without_views(monkeypatch):
    x = torch.ones(3, 4, requires_grad=True)
    assert _torch.count_operations(lambda: (x.t() * 2).exp()) == 2
    y = (x.t() * 2).exp().sum()
    assert _torch.count_operations(y.backward) >= 3
    monkeypatch.setitem(sys.modules, "torch.utils._python_dispatch", None)  # importing it raises ImportError
    assert _torch.count_operations(lambda: x * 2) is None


@pytest.mark.parametrize(("size", "limit"), [(32, 700), pytest.param(1024, 1000, marks=pytest.mark.slow)])
def test_a_step_of_tree_smu_dispatches_few_operations(size, limit, monkeypatch):
    monkeypatch.setattr(device_report, "STEPS", 1)
    monkeypatch.setattr(device_report, "WARM", 0)
    examples = formats.read_examples([device_report.DATA])
    random.Random(0).shuffle(examples)
    assert limit / 2 < device_report._measure("tree_smu", size, examples, "cpu")["operations"] <= limit


def test_a_model_that_deviates_is_a_problem(monkeypatch, tmp_path, capsys):
    def reported(device, **_):
        rows = [
            {"model": "good", "ok": True, "float64": 0.0, "float32": 1e-7, "cpu": 1e-7},
            {"model": "bad", "ok": False, "float64": 0.5, "float32": 0.5, "cpu": 1e-7},
            {"model": "ugly", "ok": False, "fault": "RuntimeError: no kernel"},
        ]
        step = {
            "model": "good",
            "batch": 32,
            "operations": 700,
            "waits": ["cells/_layers.py:130"],
            "milliseconds": 1.5,
            "epoch": 1.3,
        }
        return {"models": rows, "steps": [step]}

    monkeypatch.setattr(device_report, "report", reported)
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--device", "cpu", "--output", str(tmp_path / "report.json")])
    text = capsys.readouterr().out
    assert stop.value.code == 1 and "bad on cpu: 5.0e-01 from the CPU" in text and "ugly on cpu: RuntimeError" in text
    assert "good at batch 32 waits for cpu in cells/_layers.py:130" in text
    assert json.loads((tmp_path / "report.json").read_text())["measured on"] == "cpu"


def test_a_device_that_is_not_there(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--device", "cuda"])
    assert stop.value.code == 2 and "'cuda' is not available here" in capsys.readouterr().err
