"""Where DGL cannot be imported, everything works but graphs and the engine `topo`."""

import subprocess
import sys

import programs
import pytest
from small_runs import contents, small_config

from dgl_treestack.runs import configuration
from dgl_treestack.training.start import start

HIDDEN = "import sys; sys.modules['dgl'] = None"


@pytest.mark.slow
def test_a_run_is_the_same_to_the_last_bit_and_what_needs_a_graph_says_so(tmp_path):
    """A saved graph is not called damaged."""
    config, file, run = small_config(tmp_path), tmp_path / "small.toml", tmp_path / "without" / "small-0"
    start(config, 0, tmp_path / "with", quiet=True)
    file.write_text(configuration.dump(config))
    (tmp_path / "graph.bin").write_bytes(b"")
    trained, plotted, evaluated, *refused = programs.treestack(
        ("train", file, "--output-dir", run.parent),
        ("plot", "depth", run, "--output", tmp_path / "depth.svg"),
        ("evaluate", run, tmp_path / "test.jsonl"),
        ("train", file, "--set", "engine=topo", "--output-dir", tmp_path),
        ("complete", "sin(x)**2+_=1"),
        ("inspect", tmp_path / "graph.bin"),
        first=HIDDEN,
    )
    assert [trained[0], plotted[0], evaluated[0]] == [0, 0, 0], trained[2] + plotted[2] + evaluated[2]
    assert contents(run.parent) == contents(tmp_path / "with")
    assert (tmp_path / "depth.svg").exists() and "160" in evaluated[1]
    for code, _, errors in refused:
        assert code == 2 and "DGL is needed here" in errors and "Traceback" not in errors


def test_a_verdict_needs_no_graph_and_the_stand_in_says_what_does():
    commands = ("verify", "sin(x)**2 + cos(x)**2 = 1"), ("cells",), ("doctor",)
    verdict, cells, doctor = programs.treestack(*commands, first=HIDDEN)
    assert verdict[0] == 0 and "holds: " in verdict[1]
    assert cells[0] == 0 and "tree_smu" in cells[1] and "gin" not in cells[1]
    is_expected = sys.version_info >= (3, 13)
    said = "There is no DGL for this Python" if is_expected else "DGL cannot be imported"
    assert doctor[0] == (not is_expected) and said in doctor[1]
    program = f"""{HIDDEN}
from dgl_treestack import Model, dgl
Model.build("transformer", 8)
for call in (lambda: dgl.batch, lambda: Model.build("gin", 8)):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stdout.count("DGL is needed here") == 2 and "ConfigurationError DGL is needed here" in process.stdout
    assert ("it has no build for Python 3." in process.stdout) == is_expected
