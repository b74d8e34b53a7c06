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

TOY = '''"""A toy: the mean of the children through a layer per operator."""

from typing import Any

import torch

from dgl_treestack.cells import Cell, CellSpec, dropped


class Toy(Cell):
    """Ours, eq. 0: h = tanh(W i + b), i = [h_1; ...; h_A]. Shapes: h (H,), W (H, A H). Dropout acts on h."""

    def __init__(self, *sizes: Any, **common: Any):
        super().__init__(*sizes, **common)
        self.noise = {"h": (self.hidden,)}
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))

    def node(self, ops, children, inputs, noise):
        return {"h": dropped(torch.tanh(ops.linear("state", self.join(children["h"], inputs))), noise, "h")}, {}


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
