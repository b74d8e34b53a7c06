"""Where DGL cannot be imported, everything works but graphs and the engine `topo`."""

import json
import os
import subprocess
import sys

import pytest
from small_runs import contents, small_config

from dgl_treestack.runs import configuration
from dgl_treestack.training.start import start

# Runs commands, a list of lists of arguments, in one process; prints the exit code, output and errors of each
PROGRAM = """
import sys
sys.modules["dgl"] = None
import contextlib, io, json
from dgl_treestack.cli import main

results = []
for arguments in json.loads(sys.argv[1]):
    code, output, errors = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code or 0
    results.append([code, output.getvalue(), errors.getvalue()])
print(json.dumps(results))
"""


def python(program, *arguments):
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", program, *arguments], env=settings, capture_output=True, text=True)


def treestack(*commands):
    """Run commands in a process that cannot import DGL; return exit code, output and errors of each."""
    process = python(PROGRAM, json.dumps([[str(argument) for argument in command] for command in commands]))
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_run_is_the_same_to_the_last_bit_and_what_needs_a_graph_says_so(tmp_path):
    """A saved graph is not called damaged."""
    config, file, run = small_config(tmp_path), tmp_path / "small.toml", tmp_path / "without" / "small-0"
    start(config, 0, tmp_path / "with", quiet=True)
    file.write_text(configuration.dump(config))
    (tmp_path / "graph.bin").write_bytes(b"")
    trained, plotted, evaluated, *refused = treestack(
        ("train", file, "--output-dir", run.parent),
        ("plot", "depth", run, "--output", tmp_path / "depth.svg"),
        ("evaluate", run, tmp_path / "test.jsonl"),
        ("train", file, "--set", "engine=topo", "--output-dir", tmp_path),
        ("complete", "sin(x)**2+_=1"),
        ("inspect", tmp_path / "graph.bin"),
    )
    assert [trained[0], plotted[0], evaluated[0]] == [0, 0, 0], trained[2] + plotted[2] + evaluated[2]
    trained_files = contents(run)
    trained_files.pop("records/test.parquet", None)
    assert trained_files.items() <= contents(tmp_path / "with" / "small-0").items() and "metrics.jsonl" in trained_files
    assert (tmp_path / "depth.svg").exists() and "160" in evaluated[1]
    for code, _, errors in refused:
        assert code == 2 and "DGL is needed here" in errors and "Traceback" not in errors


def test_a_verdict_needs_no_graph_and_the_stand_in_says_what_does():
    verdict, cells, doctor = treestack(("verify", "sin(x)**2 + cos(x)**2 = 1"), ("cells",), ("doctor",))
    assert verdict[0] == 0 and "holds: " in verdict[1]
    assert cells[0] == 0 and "tree_smu" in cells[1] and "gin" not in cells[1]
    is_expected = sys.version_info >= (3, 13)
    said = "There is no DGL for this Python" if is_expected else "DGL cannot be imported"
    assert doctor[0] == (not is_expected) and said in doctor[1]
    process = python("""
import sys
sys.modules["dgl"] = None
from dgl_treestack import Model, dgl
Model.build("transformer", 8)
for call in (lambda: dgl.batch, lambda: Model.build("gin", 8)):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
""")
    assert process.stdout.count("DGL is needed here") == 2 and "ConfigurationError DGL is needed here" in process.stdout
    assert ("it has no build for Python 3." in process.stdout) == is_expected
