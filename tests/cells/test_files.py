"""The folder of cells: files say nothing twice, and a new cell is one file."""

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dgl_treestack

ROOT = Path(dgl_treestack.__file__).parents[1]
CELLS = ROOT / "dgl_treestack" / "cells"
FILES = sorted(path for path in CELLS.glob("*.py") if path.stem not in ("__init__", "_contract"))
RUN = 6
NOT_FOR_TOYS = ("test_files", "test_equations")  # this file, and what has to know every equation

TOY = '''"""A toy: twice what a Tree-RNN says."""

from typing import Any

from dgl_treestack.cells import CellSpec
from dgl_treestack.cells.tree_rnn import TreeRNN


class Toy(TreeRNN):
    """Ours, eq. 0: h = 2 h', h' of a Tree-RNN. Shapes: h (H,). Dropout acts on h'."""

    def node(self, *given: Any):
        state, signals = super().node(*given)
        return {"h": 2 * state["h"]}, signals


MODELS = {"toy": CellSpec(Toy, "none", "0", "nothing")}
'''


def test_no_six_lines_stand_in_two_files():
    file_of_run: dict[tuple[str, ...], str] = {}
    for path in FILES:
        code = [line.rstrip() for line in path.read_text().splitlines() if line.strip()]
        lines = [line for line in code if not line.startswith(("import ", "from "))]
        for run in {tuple(lines[i : i + RUN]) for i in range(len(lines) - RUN + 1)}:
            assert file_of_run.setdefault(run, path.name) == path.name, "\n".join(run)


@pytest.mark.slow
def test_a_new_cell_is_one_file(tmp_path):
    for folder in ("dgl_treestack", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "resources"))
    (tmp_path / "dgl_treestack" / "resources").mkdir()
    for file in itertools.chain((ROOT / "dgl_treestack" / "resources").glob("*.py"), [ROOT / "pyproject.toml"]):
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
    (tmp_path / "dgl_treestack" / "cells" / "toy.py").write_text(TOY)
    listed = run(tmp_path, "-m", "dgl_treestack", "cells")
    assert listed.returncode == 0 and "\ntoy " in listed.stdout
    suites = [str(path) for path in sorted((tmp_path / "tests" / "cells").glob("test_*.py")) if path.stem not in NOT_FOR_TOYS]
    tested = run(tmp_path, "-m", "pytest", "-q", "-k", "toy", *suites)
    assert tested.returncode == 0, tested.stdout[-3000:]
    assert int(tested.stdout.split(" passed")[0].split()[-1]) >= 13


def run(folder, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
