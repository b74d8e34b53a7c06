"""Joulin & Mikolov's tables and figures: all models on all tasks, the chosen restart and the distribution over all."""

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from dgl_treestack import atomic, plots
from dgl_treestack.algorithmic.experiment import Extent, fingerprint, run, train_size
from dgl_treestack.algorithmic.models import NetModel, models
from dgl_treestack.algorithmic.tasks import tasks
from dgl_treestack.algorithmic.testing import PROTOCOLS
from dgl_treestack.data.records import Record
from dgl_treestack.processes import Jobs, workers
from dgl_treestack.results import report

TITLE = "Counting, memorization, addition"
SOURCE = "Joulin & Mikolov 2015, Tables 2 and 3, Figures 2 and 3"
KEPT = ("records.parquet", "summary.json", "trace.jsonl", "DONE")
EXTENTS = {
    "smoke": Extent(restarts=2, share=0.004, largest=6, far=(9,), repeats=1, streamed=1),
    "day": Extent(),
    "paper": Extent(repeats=200, streamed=200),
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
# Task -> figure of a net's actions: Table 3, and memorization in place of Figure 3.
TRACED = {"anb2n": "actions", "memorization": "actions_memorization"}
_SPREAD: Mapping[str, Callable[[list[float]], float]] = {"worst": min, "median": statistics.median, "best": max}
Line = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """A run: a model on a task. number: of the model among `models` of the task."""

    task: str
    number: int
    extent: Extent
    seed: int
    folder: Path

    @property
    def model(self) -> NetModel:
        return models(tasks()[self.task])[self.number]


def runs(folder: Path, scale_name: str, seed: int) -> list[Path]:
    """Return the folders of all runs."""
    return [planned.folder for planned in _plan(folder, EXTENTS[scale_name], seed)]


def reproduce(folder: Path, scale_name: str, seed: int, *, jobs: Jobs = 1, training: bool = True) -> str:
    """Train missing runs, then write `table.md`, `table.csv` and figures. Restarts take the role of seeds.

    training: if false, only finished runs are used; without any, nothing is written. Returns the text of the table, or ''.
    """
    extent = EXTENTS[scale_name]
    plan = [planned for planned in _plan(folder, extent, seed) if training or (planned.folder / "DONE").exists()]
    if not plan:
        return ""
    if jobs != 1:
        with workers(jobs) as pool:
            sizes = _sizes(plan)
            list(tqdm(pool.map(_train_size, *zip(*sizes, strict=True)), total=len(sizes), desc="sizes", disable=None))
            records_of_runs = list(tqdm(pool.map(_run, plan), total=len(plan), desc="runs", disable=None))
    else:
        records_of_runs = list(map(_run, plan))
    rows_of_run = {(planned.task, planned.model.label): rows for planned, rows in zip(plan, records_of_runs, strict=True)}
    lines = [line for key, rows in rows_of_run.items() for line in _lines(*key, rows, extent)]
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    summaries = [json.loads((planned.folder / "summary.json").read_text()) for planned in plan]
    hours = sum(summary["seconds of one core"] for summary in summaries) / 3600
    origins = list(dict.fromkeys(origin for summary in summaries for origin in summary["trained at"]))
    places = "; ".join(origins) if len(origins) == 1 else "; ".join(f"({i}) {origin}" for i, origin in enumerate(origins, 1))
    command = (
        f"`treestack reproduce algorithmic --scale {scale_name}`, seed {seed}. Trained at {places}. "
        f"Training and testing took {hours:.2f} CPU hours."
    )
    text = _markdown(lines, summaries, extent, origins, command)
    atomic.write_text(folder / "table.md", text)
    traces = {planned.task: trace for planned in plan if (trace := planned.folder / "trace.jsonl").exists()}
    _draw(rows_of_run, traces, folder, extent)
    return text


def _plan(folder: Path, extent: Extent, seed: int) -> list[Planned]:
    """Return all runs. The name of a folder has task, model, a hash of the settings, and seed."""
    plan = []
    for name, task in tasks().items():
        for number, model in enumerate(models(task)):
            label = model.label.lower().replace(" ", "_").replace("+", "-")
            run_folder = folder / "runs" / f"{name}-{label}-{fingerprint(model, extent)}-{seed}"
            plan.append(Planned(name, number, extent, seed, run_folder))
    return plan


def _sizes(plan: Sequence[Planned]) -> list[tuple[Planned, int]]:
    """Return every run with the index of every size of its model, those that take longest first."""
    cost_of_size = {
        (planned, index): planned.model.recipe.updates * math.prod(size.values())
        for planned in plan
        for index, size in enumerate(planned.model.sizes)
    }
    return sorted(cost_of_size, key=cost_of_size.__getitem__, reverse=True)


def _train_size(planned: Planned, index: int) -> None:
    """Train one size of a model on one task, in a worker, without a progress bar."""
    torch.set_num_threads(1)
    train_size(tasks()[planned.task], planned.model, index, planned.extent, planned.seed, planned.folder, quiet=True)


def _run(planned: Planned) -> list[Record]:
    """Run one model on one task, in this process or a worker."""
    torch.set_num_threads(1)
    return run(tasks()[planned.task], planned.model, planned.extent, planned.seed, planned.folder)


def _lines(task: str, label: str, rows: Sequence[Record], extent: Extent) -> Iterator[Line]:
    """Yield a line before rounding and, if there is rounding, one after it.

    Per protocol and kind of actions: the per cent of sizes on which the chosen restart, that of lowest entropy, is right, and
    the number of restarts that are right on all sizes.
    """
    for rounded in sorted({row["rounded"] for row in rows}):
        name, printed = f"{label}, rounded" if rounded else label, None
        if name in PAPER and task in COUNTING:
            printed = PAPER[name][COUNTING.index(task)]
        restarts = sorted({row["restart"] for row in rows if row["rounded"] == rounded})
        line: Line = {"task": task, "model": name, "restarts": len(restarts), "paper": printed}
        modes = sorted({row["hard"] for row in rows if row["rounded"] == rounded})
        for protocol, hard in itertools.product(PROTOCOLS, modes):
            tests = [row for row in rows if (row["rounded"], row["protocol"], row["hard"]) == (rounded, protocol, hard)]
            near = [row for row in tests if row["depth"] <= extent.largest]
            right = [[row["correct"] for row in near if row["restart"] == restart] for restart in restarts]
            shares = [100 * sum(of_restart) / len(of_restart) for of_restart in right]
            best = min(tests, key=itemgetter("entropy"))
            column = f"{protocol}, {'hard' if hard else 'soft'}"
            line[column] = shares[best["restart"]]
            line[f"{column}: restarts"] = sum(share == 100.0 for share in shares)
            if protocol == "emptied":
                line |= {f"{column}: {rank} restart": statistic(shares) for rank, statistic in _SPREAD.items()}
                line[f"entropy, {column}"] = best["entropy"]
                by_size = sorted((row for row in tests if row["restart"] == best["restart"]), key=itemgetter("depth"))
                held = itertools.takewhile(itemgetter("correct"), by_size)
                line[f"{column}: holds to"] = max((row["depth"] for row in held), default=0)
        yield line


_CAPTION = (
    "Per cent of the sizes n from the smallest, 2, to {extent.largest} at which the chosen restart is right; in brackets, "
    "how many restarts are right at all of them. Trained on n < 20, so that a net which is right at these alone has "
    "{trained_sizes:.1f}; the paper's sizes begin at 1. n is n + m in a^n b^m c^(n+m), the length of the word in "
    "memorization, and the length of both numbers together in addition. A sequence is right if the most probable symbol "
    "is right wherever the sequence determines it. The chosen restart has the lowest entropy, with the same kind of "
    "actions, on sequences of n < 20 that are drawn anew; with soft and with hard actions it may be another one. Emptied: "
    "memories are emptied before every sequence; a size is right if all of its {extent.repeats} sequences are (one, if "
    "sequences of a size are equal). Stream: one stream from the smallest to the largest size, without the boundaries of "
    "sequences, as in the paper, {extent.streamed} sequences per size. Soft: mixed actions; hard: the most probable "
    "action only. Last columns, emptied memories, soft; hard: per cent of sizes for the worst, median and best restart, "
    "and the largest n up to which the chosen restart is right at every tested size (above {extent.largest}: {far}). "
    "Rounded: fine-tuned towards hard actions, then stacks removed without which the entropy rises by at most one per "
    "cent."
)
_RECIPES = (
    "All nets: gradients through 50 tokens, clipped at 15, memories of which two cells are read, no recurrence besides "
    "the memory in Stack RNN and List RNN, a no-op in addition only. Sizes of training sequences grow to 19 (in addition "
    "of the Stack RNN only as fast as a net learns them). RNN and LSTM have the paper's net sizes, of which the one with "
    "the least entropy is taken. The paper trains with steps of 0.1 that are halved by validation, and does not give the "
    "number of restarts; here RNN, and the Stack RNN in counting, are trained by gradient descent with steps of 0.1 that "
    "fall by schedule, the others with Adam, and the numbers of updates differ, below: what a model of fewer updates "
    "lacks may be due to that."
)


def _markdown(
    lines: Sequence[Line], summaries: Sequence[Mapping[str, Any]], extent: Extent, origins: Sequence[str], command: str
) -> str:
    """Return the table. origins: commits and machines of the runs, in the order of their numbers. command: the last line."""
    trained_sizes = 100 * (min(extent.largest, 19) - 1) / (extent.largest - 1)  # per cent
    columns = ("emptied, soft", "emptied, hard", "stream, soft", "stream, hard")
    rows = [["task", "model", "paper", *columns, "restarts: worst, median, best", "holds to n"]]
    for line in lines:
        cells = [
            f"{line[column]:.1f} ({line[f'{column}: restarts']}/{line['restarts']})" if column in line else "-"
            for column in columns
        ]
        paper = "-" if line["paper"] is None else f"{line['paper']:g}"
        emptied = [column for column in columns[:2] if column in line]
        spread = "; ".join(", ".join(f"{line[f'{column}: {rank} restart']:.0f}" for rank in _SPREAD) for column in emptied)
        holds = "; ".join(str(line[f"{column}: holds to"]) for column in emptied)
        rows.append([tasks()[line["task"]].title, line["model"], paper, *cells, spread, holds])
    return "\n\n".join(
        [
            "# Algorithmic patterns",
            "Joulin & Mikolov 2015, Table 2, and the tasks of Figure 2.",
            report.markdown_table(rows),
            _CAPTION.format(extent=extent, far=", ".join(map(str, extent.far)), trained_sizes=trained_sizes),
            _RECIPES,
            "Sizes of the chosen nets. CPU minutes: of all net sizes, training and tests.",
            _settings(summaries, origins),
            f"{command}\n",
        ]
    )


def _settings(summaries: Sequence[Mapping[str, Any]], origins: Sequence[str]) -> str:
    """Return the table of sizes and recipes; where runs have several origins, with the numbers of those of each run."""
    rows = [["task", "model", "size", "optimizer", "learning rate", "updates", "CPU minutes"]]
    for summary in summaries:
        recipe = summary["recipe"]
        size = ", ".join(f"{name} {value}" for name, value in summary["size"].items())
        names = [tasks()[summary["task"]].title, summary["model"], size, recipe["optimizer"]]
        minutes = f"{summary['seconds of one core'] / 60:.1f}"
        rows.append([*names, f"{recipe['rate']:g}", f"{recipe['updates']:,}", minutes])
    if len(origins) > 1:
        rows[0].append("trained at")
        for row, summary in zip(rows[1:], summaries, strict=True):
            row.append(", ".join(f"({origins.index(origin) + 1})" for origin in summary["trained at"]))
    return report.markdown_table(rows)


def _draw(
    rows_of_run: Mapping[tuple[str, str], Sequence[Record]], traces: Mapping[str, Path], folder: Path, extent: Extent
) -> None:
    """Draw accuracy against length (Figure 2), and the actions of nets (Table 3, Figure 3).

    Figure 3 is of addition, which is not learned here; ours is of memorization. A curve has the per cent of
    sequences of a size on which the chosen restart is right, before rounding, from empty memories. traces: files by task.
    """
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for (name, label), rows in rows_of_run.items():
        if name in SHOWN_BY_LENGTH:
            tests = [row for row in rows if not row["rounded"] and not row["hard"] and row["protocol"] == "emptied"]
            best = min(tests, key=itemgetter("entropy"))
            shown = [row for row in tests if row["restart"] == best["restart"] and row["depth"] <= extent.largest]
            curves.setdefault(tasks()[name].title, {})[label] = {row["depth"]: 100 * row["score"] for row in shown}
    if curves:
        points = [
            {"task": task, "model": label, "n": n, "per cent": share}
            for task, models in curves.items()
            for label, curve in models.items()
            for n, share in curve.items()
        ]
        atomic.write_text(folder / "length.csv", report.csv_table(points))
        plots.draw_data("algorithmic", curves, folder / "length")
    for task, figure in TRACED.items():
        if task in traces:
            plots.draw_data("actions", [json.loads(line) for line in traces[task].read_text().splitlines()], folder / figure)
