"""Every script and the notebook in `examples/` run, at a size that fits the suite, and use public names only."""

import ast
import importlib
import os
from pathlib import Path

import nbformat
import programs
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
# name -> arguments, what is printed, files that are there afterwards
SCRIPTS = {
    "train_tree_smu.py": ("--epochs 2 --most 160 --hidden 8", "best validation accuracy", ["tree_smu.png"]),
    "own_cell.py": ("", "epoch 3: training loss 0.5", []),
    "inspect_batch.py": ("", "sin(x)**2 + cos(x)**2 = 1 has 11 nodes", ["batch.bin"]),
    "errors_by_operator.py": ("--most 500", "with it", []),
    "depth_curves.py": ("", "depth 13:", ["depth_curves.png"]),
    "finetune_released_weights.py": ("--steps 3", "after: ", []),
}

LONG = ("train_tree_smu.py", "own_cell.py", "finetune_released_weights.py", "depth_curves.py")


def run(name, arguments, folder):
    result = programs.run(EXAMPLES / name, arguments, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_script_is_run_and_uses_public_names_only():
    assert set(SCRIPTS) == {path.name for path in EXAMPLES.glob("*.py")}
    assert len((EXAMPLES / "train_tree_smu.py").read_text().splitlines()) <= 90, "the training script is short"
    # Nothing with an underscore, and every name that is imported from the package is there
    for path in EXAMPLES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("dgl_treestack"):
                home = importlib.import_module(node.module)
                for alias in node.names:
                    assert not alias.name.startswith("_") and hasattr(home, alias.name), f"{path.name}: {alias.name}"
                assert not any(part.startswith("_") for part in node.module.split("."))
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_") or node.attr.startswith("__"), f"{path.name}: {node.attr}"


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in SCRIPTS])
def test_a_script(name, tmp_path):
    arguments, shown, files = SCRIPTS[name]
    assert shown in run(name, arguments.split(), tmp_path) and {path.name for path in tmp_path.iterdir()} >= set(files)


def test_the_authors_weights_can_be_trained_further(authors, tmp_path, treestack):
    (checkpoint, *_) = sorted((authors / "checkpoints").glob("exp_lstm_drop*.checkpoint"))
    treestack("import-authors", checkpoint, "--output-dir", tmp_path / "released")
    assert "released before: " in run("finetune_released_weights.py", ["released", "--steps", "2"], tmp_path)


@pytest.mark.slow
def test_the_notebook_runs_and_has_its_outputs(tmp_path):
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code) and any(cell.outputs for cell in code), "committed without outputs"
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "DGL_DOWNLOAD_DIR": str(tmp_path)}
    settings.pop("MPLBACKEND", None)
    client = NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=settings)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs), "drawn"
