"""A wheel, installed into an empty folder, trains, verifies and plots."""

import subprocess
import sys
import zipfile
from pathlib import Path

import programs
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
    run, small = "runs/quickstart-tree_smu-0", ("--set", "schedule.epochs=1", "data.max_depth=3", "model.hidden=8")
    results = programs.treestack(
        ("train", "configs/quickstart/tree_smu.toml", "--quiet", *small),
        ("verify", "x + y = y + x", "--run", run),
        ("plot", "depth", run, "--output", "depth.svg"),
        first=f"import dgl_treestack; assert dgl_treestack.__file__.startswith({str(site)!r})",
        folder=work,
        PYTHONPATH=str(site),
    )
    assert [code for code, _, _ in results] == [0, 0, 0], results
    assert "P(correct)" in results[1][1] and (work / "depth.svg").exists() and (work / "depth.png").exists()
