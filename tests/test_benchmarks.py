"""The benchmarks run and print the rows that they document. No test asserts a measured time."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from each_case import cases

ROOT = Path(__file__).parent.parent
SMALL = "--hidden 4 --json"


@pytest.fixture
def measured(monkeypatch, capsys):
    """A function of a command line, which returns the rows that the benchmark prints. It runs in this process, for time."""

    def run(command):
        name, *arguments = command.split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert rows
        return rows

    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of processes that a benchmark starts
    return run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The input graph for the user-defined edge function")  # DGL, in the peers' cells
@cases(
    f"training_step --cells tree_smu --engines topo levels --batches 64 --rounds 1 {SMALL}",
    f"training_step --cells child_sum --engines levels --batches 2 --rounds 1 {SMALL}",
    f"inference --cells tree_lstm --engines levels --batches 2 --rounds 1 --dropout 0.1 {SMALL}",
    f"growth --sizes 2 --chain 50 {SMALL}",
    f"epoch --data bundled:quickstart/validation --most-nodes 8 --engines levels {SMALL}",
    f"roofline --batches 64 --engine levels --rounds 1 {SMALL}",
)
def test_a_benchmark_gives_rows(measured, command):
    for row in measured(command):
        assert {"cell", "engine", "batch", "us_per_equation", "peak_mb"} <= set(row)
        assert row["us_per_equation"] > 0 and row["peak_mb"] > 0


@pytest.mark.slow
def test_restarts_a_loader_and_several_processes_are_measured(measured):
    rows = measured("stack_rnn --restarts 2 --new 10 --hidden 4 --stacks 2 --capacity 20 --updates 3 --json")
    assert [row["engine"] for row in rows] == ["new tokens", "windows"]
    assert all(row["tokens_per_s"] == pytest.approx(2 * 10 / row["ms_per_update"] * 1e3) for row in rows)
    (row,) = measured(f"loader --batches 4 --steps 2 --rounds 1 {SMALL}")
    assert row["nodes"] > 40 and all(value > 0 for value in row.values())
    assert {"own loop, step", "loader, step", "read and plan", "build tree by tree, dgl.batch"} <= set(row)
    rows = measured(f"distributed --processes 2 --batch 8 --steps 2 --rounds 1 --compile off {SMALL}")
    assert [(row["processes"], row["apart"]) for row in rows] == [(2, False), (2, True)]
    for row in rows:
        parts = [row[name] for name in row if name.endswith("_ms") and name != "step_ms"]
        assert sum(parts) == pytest.approx(row["step_ms"]) and row["equations_per_s"] > 0


def test_batches_share_rows_only_if_asked_to(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.common import make_batches, make_model

    model, rows = make_model("tree_rnn", 4), []
    for shared in (True, False):
        batch = make_batches(model, 64, shared=shared)[0]
        rows.append(batch.plans.get(batch.trees, shared=True, device=torch.device("cpu")).rows)
    assert rows[0] < rows[1]
