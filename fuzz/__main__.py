"""Runs campaigns: a number of damaged inputs each, every one of which has to end in a result or in one clear error.

python -m fuzz [CAMPAIGN ...] [--inputs 20000] [--seed 0] [--folder runs/fuzz] [--only NUMBER] [--report FILE]

`--inputs` is the number of all campaigns together, of which each has its share (`campaigns.SHARES`). An input depends on
campaign, seed and number alone. Counts are saved after every hundred inputs; the same command goes on, and more inputs
continue it. What is unexpected, any other exception and whatever takes a minute, is printed and saved with the number of the
input, which `--only` runs again without a net. The exit code is 1 if anything was unexpected.
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from tyro.conf import Positional

from dgl_treestack import atomic
from dgl_treestack.errors import TreestackError
from fuzz.campaigns import CAMPAIGNS, SHARES

BLOCK = 100  # inputs between two saves
LONGEST = 60  # seconds for an input


class TooLong(Exception):
    """An input has taken longer than LONGEST."""


@dataclass
class Settings:
    """campaigns: all by default."""

    campaigns: Positional[tuple[str, ...]] = ()
    inputs: int = 20_000
    seed: int = 0
    folder: Path = Path("runs/fuzz")
    only: Annotated[int | None, tyro.conf.arg(help="Run one input of one campaign again, without a net.")] = None
    report: Annotated[Path | None, tyro.conf.arg(help="Also write the table to this file.")] = None


@dataclass
class Count:
    """What became of the inputs of a campaign. unexpected: (number of the input, error)."""

    done: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    unexpected: list[tuple[int, str]] = field(default_factory=list)


def run(name: str, settings: Settings) -> Count:
    """Run a campaign from where it was stopped and return its counts."""
    path = settings.folder / f"{name}-{settings.seed}.json"
    count = Count(**json.loads(path.read_text())) if path.exists() else Count()
    with tempfile.TemporaryDirectory() as scratch:
        campaign = CAMPAIGNS[name](Path(scratch))
        inputs = settings.inputs * SHARES[CAMPAIGNS[name]] // 100
        while count.done < inputs:
            outcomes, begun = Counter(count.outcomes), time.process_time()
            for number in range(count.done, min(count.done + BLOCK, inputs)):
                try:
                    with _limit():
                        outcome = campaign(random.Random(f"{name}:{settings.seed}:{number}"))
                except TreestackError as error:
                    outcome = type(error).__name__
                    if "Traceback" in str(error):
                        count.unexpected.append((number, f"a traceback in a message: {error}"[:500]))
                except Exception as error:
                    outcome = "unexpected"
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    where = f"{Path(last.filename).name}:{last.lineno}"
                    count.unexpected.append((number, f"{type(error).__name__}: {error} ({where})"[:500]))
                    print(f"{name} {number}: {count.unexpected[-1][1]}", file=sys.stderr, flush=True)
                outcomes[outcome] += 1
                count.done = number + 1
            count.outcomes, count.seconds = dict(sorted(outcomes.items())), count.seconds + time.process_time() - begun
            atomic.write_text(path, json.dumps(vars(count), indent=1) + "\n")
    return count


@contextlib.contextmanager
def _limit() -> Iterator[None]:
    """Raise TooLong when the block takes longer than LONGEST."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {LONGEST} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)


def table(counts: dict[str, Count]) -> str:
    """Return the counts as a Markdown table."""
    lines = ["| campaign | inputs | outcomes | unexpected | CPU s |", "|---|---|---|---|---|"]
    for name, count in counts.items():
        outcomes = ", ".join(f"{outcome} {number:,}" for outcome, number in count.outcomes.items())
        lines.append(f"| {name} | {count.done:,} | {outcomes} | {len(count.unexpected)} | {count.seconds:.0f} |")
    total = [sum(values) for values in zip(*((c.done, len(c.unexpected), c.seconds) for c in counts.values()), strict=True)]
    return "\n".join([*lines, f"| all | {total[0]:,} | | {total[1]} | {total[2]:.0f} |"])


def main() -> int:
    settings = tyro.cli(Settings, description=__doc__)
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    names = settings.campaigns or tuple(CAMPAIGNS)
    for name in names:
        if name not in CAMPAIGNS:
            raise SystemExit(f"There is no campaign {name!r}; there are {', '.join(CAMPAIGNS)}.")
    if settings.only is not None:
        with tempfile.TemporaryDirectory() as scratch:
            print(CAMPAIGNS[names[0]](Path(scratch))(random.Random(f"{names[0]}:{settings.seed}:{settings.only}")))
        return 0
    counts = {name: run(name, settings) for name in names}
    text = table(counts)
    print(text)
    if settings.report:
        atomic.write_text(settings.report, text + "\n")
    return int(any(count.unexpected for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
