"""Every command and every line of Python in the README is run, at a size that fits the suite."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dgl_treestack.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SMALL = {
    "train": ["--set", "schedule.epochs=1", "data.max_depth=3", "model.hidden=8"],
    "generate": ["--equations", "120"],
    "audit": ["--no-verdicts", "--no-leakage"],  # test_bundled_data judges the labels and fits the baselines
    "sweep": ["--dry-run"],  # tests/experiments trains a smaller one
    "reproduce": ["--dry-run"],  # likewise
}


def commands():
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def run(command, folder):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DGL_DOWNLOAD_DIR": str(folder)}
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def call(name, arguments, folder, monkeypatch, capsys):
    """A command in this process, which has loaded the libraries already."""
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as left:
        main([name, *arguments])
    said = capsys.readouterr()
    assert left.value.code in (0, None), f"{name} {arguments}\n{said.out}\n{said.err}"
    return said.out


def is_about_the_release(command):
    return command[1] == "import-authors" or "runs/released-lstm" in command


def test_commands_one_after_another(tmp_path, monkeypatch, capsys):
    found = [command for command in commands() if not is_about_the_release(command)]
    assert len(found) >= 10
    for program, name, *arguments in found:
        assert program == "treestack"
        call(name, [*arguments, *SMALL.get(name, [])], tmp_path, monkeypatch, capsys)
    run([sys.executable, "-m", "dgl_treestack", "doctor"], tmp_path)
    assert {"tree.png", "scores.jsonl", "depth.svg", "depth.png"} <= {path.name for path in tmp_path.iterdir()}


def test_commands_on_the_released_weights(authors, tmp_path, monkeypatch, capsys):
    found = [command for command in commands() if is_about_the_release(command)]
    assert len(found) == 2
    for folder in ("checkpoints", "blanks"):
        for path in (authors / folder).iterdir():
            (tmp_path / path.name).symlink_to(path)
    for _, name, *arguments in found:
        shown = call(name, arguments, tmp_path, monkeypatch, capsys)
    assert "277 equations" in shown


def test_python_examples(tmp_path):
    shown = []
    for i, example in enumerate(re.findall(r"```python\n(.*?)```", README, re.DOTALL)):
        (tmp_path / f"example{i}.py").write_text(example)
        shown.append(run([sys.executable, f"example{i}.py"], tmp_path))
    assert "torch.Size([23, 50]) torch.Size([23, 250])" in shown[0] and "Equality" in shown[1]


@pytest.mark.parametrize("target", ["quickstart", "test", "check"])
def test_make_targets_are_there(target):
    shown = run(["make", "--dry-run", target, "VENV=/nowhere"], ROOT)
    assert "--constraint constraints.txt" in shown


def test_quickstart_trains_the_configurations_that_are_shipped():
    shown = run(["make", "--dry-run", "quickstart"], ROOT)
    named = re.findall(r"configs/\S+\.toml", shown)
    assert len(named) == 3
    assert all((ROOT / name).is_file() for name in named)


def test_links_and_pictures_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
