"""Commands in a machine that denies them something: each ends with the right files, or with one clear error and exit code 2.

python -m fuzz.hardship [--report FILE]

Full disk (no file may grow beyond a size), few file descriptors, little memory, a folder and a home that cannot be written (as
another user, if started by root), a clock that was set back, two processes at once. The exit code is 1 if anything is
unexpected.
"""

import multiprocessing
import os
import resource
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
from fuzz.kills import LIBRARIES, contents, prepare

NOBODY = 65534
SECONDS = 120  # for a command


@dataclass
class Settings:
    """report: also write the table to this file."""

    report: Path | None = None


def _file_size(limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _descriptors(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def _memory(limit: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))


def _other_user(_: int) -> None:
    os.environ["HOME"] = "/nonexistent"
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _clock(_: int) -> None:
    begun = time.monotonic()
    time.time = lambda: 1e9 + time.monotonic() - begun


CONDITIONS: dict[str, tuple[Callable[[int], None], int]] = {
    "files of at most 1 KB": (_file_size, 1_000),
    "files of at most 10 KB": (_file_size, 10_000),
    "8 file descriptors": (_descriptors, 8),
    "16 file descriptors": (_descriptors, 16),
    "4 MB more memory": (_memory, 2**22),
    "16 MB more memory": (_memory, 2**24),
    "256 MB more memory": (_memory, 2**28),
    "output of another user, no home": (_other_user, 0),
    "clock of 2001": (_clock, 0),
}


def _main(arguments: list[str], output: Path, condition: str) -> None:
    """Run a command under a condition."""
    torch.set_num_threads(1)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if condition:
        restrict, limit = CONDITIONS[condition]
        restrict(limit)
    cli.main(arguments)


def _finish(all_arguments: list[list[str]], scratch: Path, condition: str = "") -> list[tuple[int | None, str]]:
    """Run commands at once. Returns exit code and output of each; None for one that had to be killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    outputs = [scratch / f"output-{i}.txt" for i in range(len(all_arguments))]
    processes = [
        context.Process(target=_main, args=(arguments, output, condition))
        for arguments, output in zip(all_arguments, outputs, strict=True)
    ]
    for process in processes:
        process.start()
    endings = []
    for process, output in zip(processes, outputs, strict=True):
        process.join(SECONDS)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join()
        endings.append((code, output.read_text() if output.exists() else ""))
    return endings


def outcome(code: int | None, output: str, is_right: bool) -> tuple[str, str]:
    """Return what became of a command, and '' or why that is unexpected."""
    lines = output.strip().splitlines()
    if code == 0:
        return ("right files", "") if is_right else ("other files", "other files than without the condition")
    if code == 2 and "Traceback" not in output and lines and any(line.startswith("error: ") for line in lines):
        return "one error", ""
    return f"exit code {code}", output[-600:]


def main() -> int:
    settings = tyro.cli(Settings, description=__doc__)
    rows, unexpected = [], []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        commands = prepare(scratch)
        for name, command in commands.items():
            (scratch / name).mkdir()
            _finish([command(scratch / name)], scratch)
            wanted = contents(scratch / name)
            for condition in (*CONDITIONS, "two processes"):
                tried = scratch / "tried"
                shutil.rmtree(tried, ignore_errors=True)
                tried.mkdir()
                arguments = command(tried)
                count = 2 if condition == "two processes" else 1
                for code, output in _finish([arguments] * count, scratch, condition if count == 1 else ""):
                    what, why = outcome(code, output, contents(tried) == wanted)
                    rows.append(f"| {name} | {condition} | {what} |")
                    if why:
                        unexpected.append(f"{name}, {condition}: {what}\n{why}")
                        print(unexpected[-1], file=sys.stderr, flush=True)
    text = "\n".join(["| command | condition | outcome |", "|---|---|---|", *rows, "", f"Unexpected: {len(unexpected)}."])
    print(text)
    if settings.report:
        atomic.write_text(settings.report, text + "\n")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
