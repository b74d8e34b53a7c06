"""Joulin & Mikolov's tables and figures: every model on every task, chosen restarts beside the distribution over all."""

import itertools
import json
import logging
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dgl_treestack import atomic, plots
from dgl_treestack.algorithmic.experiment import Extent, fingerprint, run
from dgl_treestack.algorithmic.models import NetModel, models
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.testing import PROTOCOLS
from dgl_treestack.data import records
from dgl_treestack.data.records import Record
from dgl_treestack.processes import workers
from dgl_treestack.results import report

TITLE = "Counting, memorization, addition"
SOURCE = "Joulin & Mikolov 2015, Tables 2 and 3, Figures 2 and 3"
EXTENTS = {
    "smoke": Extent(restarts=2, share=0.004, largest=6, far=(9,), repeats=1, streamed=1),
    "day": Extent(),
    "paper": Extent(restarts=64, repeats=200, streamed=200),
}
# Table 2: per cent of n that are right.
PAPER: Mapping[str, Sequence[float]] = {
    "RNN": (25, 23.3, 13.3, 23.3, 33.3),
    "LSTM": (100, 100, 68.3, 75, 100),
    "List RNN 40+5": (100, 33.3, 100, 100, 100),
    "Stack RNN 40+10": (100, 100, 100, 100, 43.3),
    "Stack RNN 40+10, rounded": (100, 100, 100, 100, 100),
}
COUNTING = ("anbn", "anbncn", "anbncndn", "anb2n", "anbmcnm")
SHOWN_BY_LENGTH = ("memorization", "addition")  # Figure 2
TRACED = "anb2n"  # Table 3
_SPREAD: Mapping[str, Callable[[list[float]], float]] = {"worst": min, "middle": statistics.median, "best": max}
Line = dict[str, Any]


def missing(folder: Path, scale_name: str, seed: int) -> list[str]:
    """The names of the runs that are not done."""
    extent = EXTENTS[scale_name]
    names = [_filed(name, model, extent, seed) for name, task in tasks().items() for model in models(task)]
    return [name for name in names if not (folder / "runs" / name / "DONE").exists()]


def reproduce(folder: Path, scale_name: str, seed: int, *, jobs: int = 1, training: bool = True) -> str:
    """Train what is missing, then write `table.md`, `table.csv` and figures. Restarts take the place of seeds.

    training: or else only from runs that are done; without any, nothing is written. Returns the text of the table, or ''.
    """
    extent = EXTENTS[scale_name]
    left = set() if training else set(missing(folder, scale_name, seed))
    work = [
        (name, number)
        for name, task in tasks().items()
        for number, model in enumerate(models(task))
        if _filed(name, model, extent, seed) not in left
    ]
    if not work:
        return ""
    if jobs > 1:
        with workers(jobs) as pool:
            done = list(pool.map(_run, [(name, number, extent, seed, folder) for name, number in work]))
    else:
        torch.set_num_threads(1)
        done = [_run((name, number, extent, seed, folder)) for name, number in work]
    found = {(name, models(tasks()[name])[number].label): rows for (name, number), rows in zip(work, done, strict=True)}
    lines = [line for key, rows in found.items() for line in _lines(*key, rows, extent)]
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    text = _markdown(lines, extent, f"treestack reproduce algorithmic --scale {scale_name}", seed)
    atomic.write_text(folder / "table.md", text)
    _draw(found, folder, extent, seed)
    return text


def _run(work: tuple[str, int, Extent, int, Path]) -> list[Record]:
    """One model on one task, in a process of its own or not."""
    name, number, extent, seed, folder = work
    torch.set_num_threads(1)
    logging.getLogger("dgl_treestack").setLevel(logging.INFO)
    task = tasks()[name]
    model = models(task)[number]
    return run(task, model, extent, seed, folder / "runs" / _filed(name, model, extent, seed))


def _filed(task: str, model: NetModel, extent: Extent, seed: int) -> str:
    """The name of a run's folder."""
    label = model.label.lower().replace(" ", "_").replace("+", "-")
    return f"{task}-{label}-{fingerprint(model, extent)}-{seed}"


def _lines(task: str, label: str, rows: Sequence[Record], extent: Extent) -> Iterator[Line]:
    """A line before rounding and, where there is one, one after: per cent of sizes that the chosen restart is right on, by way
    of testing, and how many restarts are right on all."""
    for rounded in sorted({row["rounded"] for row in rows}):
        own = [row for row in rows if row["rounded"] == rounded]
        restarts = {row["restart"] for row in own}
        name = f"{label}, rounded" if rounded else label
        printed = PAPER.get(name, ())
        line: Line = {"task": task, "model": name, "restarts": len(restarts)}
        line["paper"] = printed[COUNTING.index(task)] if printed and task in COUNTING else None
        for protocol, hard in itertools.product(PROTOCOLS, sorted({row["hard"] for row in own})):
            way = [row for row in own if (row["protocol"], row["hard"]) == (protocol, hard)]
            near = [row for row in way if row["depth"] <= extent.largest]
            mine = [row for row in way if row["restart"] == _chosen(way)]
            column = f"{protocol}, {'hard' if hard else 'soft'}"
            of_restarts = [records.accuracy(row for row in near if row["restart"] == one) for one in sorted(restarts)]
            line[column] = of_restarts[_chosen(way)]
            line[f"{column}: restarts"] = sum(share == 100.0 for share in of_restarts)
            if protocol == "emptied":
                line |= {f"{column}: {what} restart": found(of_restarts) for what, found in _SPREAD.items()}
                line[f"entropy, {column}"] = mine[0]["entropy"]
                line[f"{column}: holds to"] = _holds_to(mine)
        yield line


def _holds_to(rows: Sequence[Record]) -> int:
    """The largest size up to which every size that was tested is right, 0 when the first is not."""
    right = itertools.takewhile(lambda row: row["correct"], sorted(rows, key=lambda row: row["depth"]))
    return max((row["depth"] for row in right), default=0)


def _chosen(rows: Sequence[Record]) -> int:
    """The restart of least entropy on sequences of the sizes it was trained on."""
    return int(min(rows, key=lambda row: row["entropy"])["restart"])


_CAPTION = (
    "Per cent of the sizes n from the smallest to {extent.largest} on which the restart of least entropy for n < 20, with the "
    "actions that are tested, is right; in brackets how many restarts are right on all. Emptied: memories are emptied before "
    "every sequence, {extent.repeats} of a size where sequences of a size differ, all of which have to be right; stream: one "
    "stream from the smallest to the largest, {extent.streamed} of a size. Soft: actions as they are; hard: the likeliest "
    "alone. The last columns are of emptied memories, soft and hard: per cent of sizes that the worst restart, the middle one "
    "and the best are right on, and the n to which the chosen one holds, right on every size tested up to it, those above "
    "{extent.largest} being {far}. Rounded: fine-tuned towards hard actions, unused stacks taken away. Trained on n < 20."
)
_RECIPES = (
    "RNN and LSTM in the paper's sizes, of which the one with the least entropy is taken, with fewer restarts each. The paper "
    "trains with steps of 0.1 halved by validation; here RNN and Stack RNN count with steps of 0.1 that fall by schedule, all "
    "others are trained with Adam."
)


def _markdown(lines: Sequence[Line], extent: Extent, command: str, seed: int) -> str:
    ways = ("emptied, soft", "emptied, hard", "stream, soft", "stream, hard")
    rows = [["task", "model", "paper", *ways, "restarts: worst, middle, best", "holds to n"]]
    for line in lines:
        cells = [f"{line[way]:.1f} ({line[f'{way}: restarts']}/{line['restarts']})" if way in line else "-" for way in ways]
        paper = "-" if line["paper"] is None else f"{line['paper']:g}"
        emptied = [way for way in ways[:2] if way in line]
        spread = "; ".join(", ".join(f"{line[f'{way}: {what} restart']:.0f}" for what in _SPREAD) for way in emptied)
        holds = "; ".join(str(line[f"{way}: holds to"]) for way in emptied)
        rows.append([tasks()[line["task"]].title, line["model"], paper, *cells, spread, holds])
    return "\n\n".join(
        [
            "# Algorithmic patterns",
            "Joulin & Mikolov 2015, Table 2.",
            report.markdown_table(rows),
            _CAPTION.format(extent=extent, far=", ".join(map(str, extent.far))),
            _RECIPES,
            f"`{command}`, seed {seed}.\n",
        ]
    )


def _draw(found: Mapping[tuple[str, str], Sequence[Record]], folder: Path, extent: Extent, seed: int) -> None:
    """Accuracy against length (Figure 2), and what a net does (Table 3, Figure 3)."""
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for (name, label), rows in found.items():
        if name in SHOWN_BY_LENGTH:
            curves.setdefault(tasks()[name].title, {})[label] = _by_length(rows, extent)
    if curves:
        points = [
            {"task": task, "model": label, "n": n, "per cent": share}
            for task, models in curves.items()
            for label, curve in models.items()
            for n, share in curve.items()
        ]
        atomic.write_text(folder / "length.csv", report.csv_table(points))
        plots.draw_data("algorithmic", curves, folder / "length")
    for model in models(tasks()[TRACED]) if TRACED in tasks() else ():
        path = folder / "runs" / _filed(TRACED, model, extent, seed) / "trace.jsonl"
        if path.exists():
            plots.draw_data("actions", [json.loads(line) for line in path.read_text().splitlines()], folder / "actions")


def _by_length(rows: Sequence[Record], extent: Extent) -> dict[int, float]:
    """Per cent of sequences of a size that the chosen restart is right on: as trained, from empty memories."""
    own = [row for row in rows if not row["rounded"] and not row["hard"] and row["protocol"] == "emptied"]
    chosen = _chosen(own)
    return {row["depth"]: 100 * row["score"] for row in own if row["restart"] == chosen and row["depth"] <= extent.largest}
