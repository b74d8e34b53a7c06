"""Programs and commands in processes of their own, some forked from a process that has loaded the libraries."""

import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import torch

LIBRARIES = ["torch", "dgl_treestack._dgl", "sympy", "matplotlib.pyplot", "networkx", "tyro", "dgl_treestack"]

COMMANDS = """
import contextlib, io, json, sys
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


def treestack(*commands, first, folder=None, **settings):
    """Run commands in one new process, after a line of Python; return exit code, output and errors of each."""
    arguments = json.dumps([[str(argument) for argument in command] for command in commands])
    program, settings = f"{first}\n{COMMANDS}", {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    process = subprocess.run(
        [sys.executable, "-c", program, arguments], cwd=folder, env=settings, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def run(program, arguments, folder):
    """Run a script, given by its path, or a module, by its name, in a folder; return what `subprocess.run` returns."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    with tempfile.TemporaryDirectory() as outputs:
        texts = [Path(outputs) / name for name in ("stdout", "stderr")]
        command = [str(program), *map(str, arguments)]
        process = context.Process(target=_main, args=(isinstance(program, Path), command, str(folder), texts))
        process.start()
        process.join(300)
        if process.exitcode is None:
            process.kill()
            process.join()
        return subprocess.CompletedProcess(command, process.exitcode, *(text.read_text() for text in texts))


def _main(is_script, command, folder, texts):
    for descriptor, text in enumerate(texts, 1):
        os.dup2(os.open(text, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(folder)
    torch.set_num_threads(1)  # the libraries are loaded, and read no environment variables any more
    matplotlib.use("agg")
    os.environ["DGL_DOWNLOAD_DIR"] = folder
    sys.argv = command
    try:
        if is_script:
            sys.path.insert(0, str(Path(command[0]).parent))
            runpy.run_path(command[0], run_name="__main__")
        else:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
