"""Kills commands at random moments and starts them again until they end; the files have to be those of a command left alone.

python -m fuzz.kills [--kills 1000] [--seed 0] [--report FILE]

Training, generation, a sweep and completion, each killed about as often, at a size of a second or two; every process is killed
with its children. Files that tell of the processes themselves, such as times and logs, are not compared. The exit code is 1 if
a file differs.
"""

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from dgl_treestack import atomic, cli
from dgl_treestack.data import formats
from fuzz.inputs import small_examples

LIBRARIES = ["torch", "dgl_treestack._dgl", "sympy", "tyro", "dgl_treestack.cli", "dgl_treestack.training.start"]
OF_PROCESSES = ("times.jsonl", "train.log", "environment.json", "output.txt")
STARTS = 60  # of one command; then it is left alone


@dataclass
class Settings:
    """kills: in all."""

    kills: int = 1000
    seed: int = 0
    report: Path | None = None


CONFIG = """
name = "small"
batch_size = 8
checkpoint_steps = 2
compile = "off"
[model]
name = "tree_smu"
hidden = 4
dropout = 0.2
settings = {{ stack_size = 2 }}
[data]
train = ["{0}"]
validation = ["{0}"]
test = ["{0}"]
max_depth = 4
[schedule]
epochs = 4
"""
SWEEP = 'base = "{0}"\nseeds = [0, 1]\n[set]\n"schedule.epochs" = 2\n[grid]\n"model.hidden" = [3, 4]\n'


def prepare(scratch: Path) -> dict[str, Callable[[Path], list[str]]]:
    """Write what the commands read. Returns their arguments for an output folder, by name."""
    data, config, sweep, run = (scratch / name for name in ("small.jsonl", "small.toml", "sweep.toml", "run"))
    formats.write(data, small_examples())
    config.write_text(CONFIG.format(data))
    sweep.write_text(SWEEP.format(config))
    _finish(["train", str(config), "--output-dir", str(run)], scratch)

    def completion(folder: Path) -> list[str]:
        if not (folder / "small-0").exists():
            shutil.copytree(run / "small-0", folder / "small-0")
        return [
            "complete",
            "bundled:quickstart/blanks",
            "--run",
            str(folder / "small-0"),
            "--output",
            str(folder / "out.jsonl"),
        ]

    return {
        "train": lambda folder: ["train", str(config), "--output-dir", str(folder), "--resume"],
        "generate": lambda folder: ["generate", "paper", "--equations", "120", "--output-dir", str(folder)],
        "sweep": lambda folder: ["sweep", str(sweep), "--output-dir", str(folder)],
        "complete": completion,
    }


def _main(arguments: list[str], output: Path) -> None:
    """Run a command in a process group of its own, which has no children of an earlier one."""
    os.setsid()
    torch.set_num_threads(1)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    cli.main(arguments)


def _start(arguments: list[str], scratch: Path) -> multiprocessing.process.BaseProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    process = context.Process(target=_main, args=(arguments, scratch / "output.txt"))
    process.start()
    return process


def _finish(arguments: list[str], scratch: Path) -> float:
    """Run a command to its end. Returns the seconds it takes. Raises RuntimeError when it fails."""
    begun = time.monotonic()
    process = _start(arguments, scratch)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{arguments} ended with {process.exitcode}:\n{(scratch / 'output.txt').read_text()[-2000:]}")
    return time.monotonic() - begun


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths in it, without those that tell of processes.

    A process that is killed while it writes leaves a temporary file, whose name begins with a dot.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in OF_PROCESSES]
    files = [path for path in files if not (path.name.startswith(".") and path.suffix == ".tmp")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def kill(command: list[str], seconds: float, source: random.Random, scratch: Path) -> tuple[int, str]:
    """Run a command that is killed at random moments until it ends. Returns the number of kills, and an error or ''.

    seconds: that it takes when it is left alone.
    """
    kills = 0
    for _ in range(STARTS):
        process = _start(command, scratch)
        process.join(source.uniform(0, 1.1 * seconds))
        if process.exitcode is None:
            has_group = os.getpgid(process.pid or 0) == process.pid  # not yet, just after its start
            os.killpg(process.pid or 0, signal.SIGKILL) if has_group else process.kill()
            process.join()
        if process.exitcode == 0:
            return kills, ""
        if process.exitcode != -signal.SIGKILL:
            return kills, f"ended with {process.exitcode}: {(scratch / 'output.txt').read_text()[-500:]}"
        kills += 1
    _finish(command, scratch)
    return kills, ""


def main() -> int:
    settings = tyro.cli(Settings, description=__doc__)
    begun, counts, differing = time.monotonic(), dict[str, list[int]](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        scratch, killed = Path(folder), Path(folder) / "killed"
        wanted, seconds = dict[str, dict[str, bytes]](), dict[str, float]()
        commands = prepare(scratch)
        for name, command in commands.items():
            (scratch / name).mkdir()
            seconds[name] = _finish(command(scratch / name), scratch)
            wanted[name], counts[name] = contents(scratch / name), [0, 0]
        for number in itertools.count():
            if sum(kills for _, kills in counts.values()) >= settings.kills:
                break
            name = min(counts, key=lambda name: counts[name][1])  # of which there are the fewest kills
            shutil.rmtree(killed, ignore_errors=True)
            killed.mkdir()
            source = random.Random(f"{settings.seed}:{number}")
            kills, error = kill(commands[name](killed), seconds[name], source, scratch)
            counts[name] = [counts[name][0] + 1, counts[name][1] + kills]
            written = contents(killed)
            different = [path for path in sorted({*wanted[name], *written}) if wanted[name].get(path) != written.get(path)]
            for text in [error] if error else different:
                differing.append(f"{name} {number}: {text}")
                print(differing[-1], file=sys.stderr, flush=True)
    rows = [f"| {name} | {runs} | {kills} |" for name, (runs, kills) in counts.items()]
    lines = ["| command | commands | kills |", "|---|---|---|", *rows]
    text = "\n".join([*lines, "", f"Files that differ: {len(differing)}. {time.monotonic() - begun:.0f} s."])
    print(text)
    if settings.report:
        atomic.write_text(settings.report, text + "\n")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
