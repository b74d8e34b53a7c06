"""A wheel, installed into an empty folder, trains, verifies and plots."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_contents(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    needed = {f"data/{name}/train.jsonl.gz" for name in ("quickstart", "smoke")} | {"axioms.txt"}
    needed |= {f"configs/{name}.toml" for name in ("quickstart/tree_smu", "sweep/stack_size")}
    needed |= {f"models/{name}/checkpoints/best.safetensors" for name in ("tree_slots", "tree_smu")}
    assert names >= {"dgl_treestack/py.typed", *(f"dgl_treestack/resources/{name}" for name in needed)}
    assert not any(name.startswith(("tests/", "benchmarks/")) or "__pycache__" in name for name in names)


@pytest.mark.slow
def test_it_works_from_an_empty_folder(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, timeout=300)
    small = "--set schedule.epochs=1 data.max_depth=3 model.hidden=8"
    run, program = (
        "runs/quickstart-tree_smu-0",
        """
import sys
import dgl_treestack
from dgl_treestack.cli import main

print(dgl_treestack.__file__)
for arguments in map(eval, sys.argv[1:]):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code
""",
    )
    commands = [
        f"train configs/quickstart/tree_smu.toml --quiet {small}".split(),
        ["verify", "x + y = y + x", "--run", run],
        ["plot", "depth", run, "--output", "depth.svg"],
    ]
    settings = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *map(repr, commands)]
    result = subprocess.run(command, cwd=work, env=settings, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(site)) and "P(correct)" in result.stdout
    assert (work / "depth.svg").exists() and (work / "depth.png").exists()
