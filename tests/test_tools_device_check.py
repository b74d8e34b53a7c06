"""`tools/device_check`, where there is no GPU: every part runs and passes, at a small size."""

import json
import subprocess

import programs
import pytest

from tools import device_check


@pytest.mark.slow
def test_the_check_of_a_device_runs_on_a_cpu(tmp_path, capsys, monkeypatch):
    """Its first part in a process as on a GPU, the others in processes that need not load the libraries."""
    output, real = tmp_path / "report.json", subprocess.run

    def run(command, **options):
        is_first = "--part" not in command or "kernels" in command
        return real(command, **options) if is_first else programs.run("tools.device_check", command[3:], tmp_path)

    monkeypatch.setattr(subprocess, "run", run)
    assert device_check.main("cpu", str(output), "--small") == 0
    report = json.loads(output.read_text())
    assert device_check.PARTS.keys() <= report.keys()
    assert all(row["ok"] for name in ("equal numbers", "equal trainings") for row in report[name])
    assert "steps  model tree_rnn  data bundled  batch 32" in capsys.readouterr().out
