"""Where DGL cannot be imported, everything works but graphs and the engine `topo`."""

import os
import subprocess
import sys

import pytest
from each_case import cases
from small_runs import contents, small_config

from dgl_treestack.runs import configuration
from dgl_treestack.training.start import start

HIDDEN = "import sys; sys.modules['dgl'] = None"


def treestack(*arguments, script=f"{HIDDEN}; from dgl_treestack.cli import main; main(sys.argv[1:])"):
    """Run a command in a process that cannot import DGL."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", script, *map(str, arguments)], env=settings, capture_output=True, text=True)


@pytest.fixture
def file(tmp_path):
    config = small_config(tmp_path)
    start(config, 0, tmp_path / "with", quiet=True)
    (tmp_path / "small.toml").write_text(configuration.dump(config))
    return tmp_path / "small.toml"


@pytest.mark.slow
def test_a_run_is_the_same_to_the_last_bit(file):
    process = treestack("train", file, "--output-dir", file.parent / "without")
    assert process.returncode == 0, process.stderr
    assert contents(file.parent / "without") == contents(file.parent / "with")
    process = treestack("plot", "depth", file.parent / "without" / "small-0", "--output", file.parent / "depth.svg")
    assert process.returncode == 0 and (file.parent / "depth.svg").exists()
    process = treestack("evaluate", file.parent / "without" / "small-0", file.parent / "test.jsonl")
    assert process.returncode == 0 and "160" in process.stdout


def test_a_verdict_needs_no_graph_and_the_stand_in_says_what_does():
    process = treestack("verify", "sin(x)**2 + cos(x)**2 = 1")
    assert process.returncode == 0 and "holds: " in process.stdout
    process = treestack(script=f"{HIDDEN}; from dgl_treestack import dgl; dgl.batch")
    assert process.returncode == 1 and "DGL is needed here" in process.stderr
    assert ("it has no build for Python 3." in process.stderr) == (sys.version_info >= (3, 13))
    script = f"{HIDDEN}; from dgl_treestack import Model; Model.build('transformer', 8); Model.build('gin', 8)"
    process = treestack(script=script)
    assert process.returncode == 1 and "ConfigurationError: DGL is needed here" in process.stderr
    process = treestack("cells")
    assert process.returncode == 0 and "tree_smu" in process.stdout and "gin" not in process.stdout


@pytest.mark.slow
@cases("train {file} --set engine=topo --output-dir {folder}", "complete sin(x)**2+_=1", "inspect {folder}/graph.bin")
def test_what_needs_a_graph_says_so(file, command):
    """A saved graph is not called damaged."""
    (file.parent / "graph.bin").write_bytes(b"")
    process = treestack(*(part.format(file=file, folder=file.parent) for part in command.split()))
    assert process.returncode == 2 and "DGL is needed here" in process.stderr and "Traceback" not in process.stderr


@pytest.mark.slow
def test_the_doctor_says_so():
    process = treestack("doctor")
    if sys.version_info < (3, 13):
        assert process.returncode == 1 and "DGL cannot be imported" in process.stdout
    else:
        assert process.returncode == 0 and "There is no DGL for this Python" in process.stdout
