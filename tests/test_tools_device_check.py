"""`tools/device_check`, where there is no GPU: every part runs and passes, at a small size."""

import json

import pytest

from tools import device_check


@pytest.mark.slow
def test_the_check_of_a_device_runs_on_a_cpu(tmp_path, capsys):
    output = tmp_path / "report.json"
    assert device_check.main("cpu", str(output), "--small") == 0
    report = json.loads(output.read_text())
    assert device_check.PARTS.keys() <= report.keys()
    assert all(row["ok"] for name in ("equal numbers", "equal trainings") for row in report[name])
    assert "steps  model tree_smu  data bundled  batch 32" in capsys.readouterr().out
