"""A sweep of twelve runs, killed half-way: the same twelve results, none of them made twice."""

import json
import signal
import subprocess
import sys
import time

import pytest
from small_runs import small_config

from dgl_treestack.runs import configuration

GRID = 'seeds = [0, 1]\n[grid]\n"model.hidden" = [2, 3]\n"model.settings.stack_size" = [1, 2, 3]\n'


def sweep(folder, *arguments, **options):
    command = [sys.executable, "-m", "dgl_treestack", "sweep", "sweep.toml", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def results(folder):
    runs = sorted(path.parent for path in (folder / "runs").glob("*/DONE"))
    return {run.name: (run / "metrics.jsonl").read_bytes() + (run / "records" / "test.parquet").read_bytes() for run in runs}


def times(folder):
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/DONE")}


@pytest.mark.slow
def test_a_killed_sweep_ends_with_the_same_results_and_repeats_none(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for folder in (whole, stopped):
        folder.mkdir()
        config = small_config(tmp_path, schedule={"epochs": 1}, compile="off")
        (folder / "base.toml").write_text(configuration.dump(config))
        (folder / "sweep.toml").write_text('base = "base.toml"\n' + GRID)
    output, _ = sweep(whole, "--json").communicate(timeout=300)
    rows = json.loads(output)
    assert len(rows) == 6 and all(row["seeds"] == [0, 1] for row in rows)
    assert [(row["hidden"], row["stack_size"]) for row in rows] == [(h, s) for h in (2, 3) for s in (1, 2, 3)]

    process = sweep(stopped)
    while len(results(stopped)) < 5:
        assert process.poll() is None
        time.sleep(0.05)  # the core is wanted
    process.send_signal(signal.SIGKILL)
    process.communicate()
    listed, _ = sweep(stopped, "--dry-run").communicate(timeout=300)
    before, missing = times(stopped), set(listed.split())
    assert len(before) + len(missing) >= 12 and len(missing) <= 7
    output, errors = sweep(stopped, "--json").communicate(timeout=300)
    assert "12 runs" in errors and json.loads(output) == rows
    assert results(stopped) == results(whole) and len(results(whole)) == 12
    after = times(stopped)
    assert all(after[name] == moment for name, moment in before.items()), "what was done was not done again"
