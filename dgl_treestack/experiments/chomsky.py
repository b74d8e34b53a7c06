"""The benchmark of Delétang et al. 2023: tasks of three levels of Chomsky's hierarchy, on longer sequences than in training."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgl_treestack.algorithmic.transductions import TRANSDUCTIONS
from dgl_treestack.experiments.protocol import Extent, read_data
from dgl_treestack.experiments.runs import Planned
from dgl_treestack.plain_data import replaced
from dgl_treestack.results import report
from dgl_treestack.results.report import Line
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs.sequence_configuration import TransductionConfig

TITLE = "Chomsky's hierarchy"
SOURCE = "Delétang et al. 2023, Table 2"
MODELS = {
    "rnn": "RNN",
    "lstm": "LSTM",
    "stack_rnn": "Stack RNN",
    "vector_stack_rnn": "Stack RNN, vectors",
    "rotary_transformer": "Transformer",
}
BATCH = 32  # a quarter of the paper's
_STACKS = {"stacks": 10, "noop": True, "recurrence": "full", "capacity": 0}
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # With tanh it did not learn parity in 5,000 steps, nor even pairs.
    "rnn": {"settings": {"hidden": 64, "activation": "relu"}},
    "lstm": {"settings": {"hidden": 64}, "learning_rate": 1e-2},  # with 3e-3 it had not learned even pairs after 1,200 steps
    "stack_rnn": {"settings": {"hidden": 64, **_STACKS}, "learning_rate": 3e-3},
    # With 3e-3 actions stay less sharp: 79 % of reversed strings of length 500 was right after 4,000 steps, with 1e-2 98 %.
    "vector_stack_rnn": {"settings": {"hidden": 64, "width": 8}, "learning_rate": 1e-2},
    "rotary_transformer": {"settings": {"hidden": 64}, "learning_rate": 3e-4},
}


def plan(folder: Path, extent: Extent, seed: int) -> list[Planned]:
    """Return all runs: every model on every task, seed after seed. folder: of the results."""
    configs = []
    for task in TRANSDUCTIONS:
        for model, values in _SETTINGS.items():
            config: Any = TransductionConfig(f"{task}-{model}", task, model, batch=BATCH, **values)  # type: ignore[arg-type]
            config = replaced(config, extent.transductions.items())
            configs.append(replace(config, name=f"{config.name}-{config.hash}"))
    return [(config, number) for number in range(seed, seed + extent.seeds) for config in configs]


def prepare(folder: Path, extent: Extent) -> None:
    """Do nothing: training draws its data."""


def write(folder: Path, runs: Sequence[RunResult], extent: Extent, command: str, seed: int) -> tuple[list[Line], list[str]]:
    """Return the lines and paragraphs of the table."""
    page, runs_of = read_data("chomsky.toml"), dict[tuple[str, str], list[RunResult]]()
    for run in runs:
        config: Any = run.config
        runs_of.setdefault((config.transduction, config.model), []).append(run)
    lines = [_line(*key, group, page["paper"]) for key, group in runs_of.items()]
    line_of = {(line["task"], line["model"]): line for line in lines}
    tasks = [name for name in TRANSDUCTIONS if any(task == name for task, _ in line_of)]
    models = [name for name in MODELS if any(model == name for _, model in line_of)]
    rows = [["task", "language", *(MODELS[model] for model in models)]]
    for task in tasks:
        cells = [_cell(line_of.get((task, model))) for model in models]
        rows.append([TRANSDUCTIONS[task].title, TRANSDUCTIONS[task].level, *cells])
    nets = [["model", "reads", "parameters", "batch", "steps", "learning rate", "seeds", "at training lengths", "CPU hours"]]
    for model in models:
        of_model = [run for (_, name), group in runs_of.items() if name == model for run in group]
        config, counts = of_model[0].config, [run.about["parameters"] for run in of_model]
        parameters = " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))
        trained = statistics.fmean(line["at training lengths"] for line in lines if line["model"] == model)
        hours = sum(run.about["cpu_seconds"] for run in of_model) / 3600
        settings = [str(config.batch), f"{config.epochs * config.steps:,}", f"{config.learning_rate:g}"]
        seeds = " ".join(map(str, sorted({run.seed for run in of_model})))
        nets.append([MODELS[model], page["reads"][model], parameters, *settings, seeds, f"{trained:.1f}", f"{hours:.2f}"])
    config, origins = runs[0].config, dict.fromkeys(run.origin for run in runs)
    lengths = config.tested_lengths
    tested = {"first": lengths[0], "last": lengths[-1], "every": config.every, "sequences": config.sequences}
    return lines, [
        f"# {TITLE}",
        f"{SOURCE}.",
        report.markdown_table(rows),
        page["caption"].format(largest=config.largest, **tested),
        page["models"],
        report.markdown_table(nets),
        page["differs"],
        f"{command}, seeds from {seed} on. Trained at {'; '.join(origins)}.",
    ]


def _line(task: str, model: str, runs: Sequence[RunResult], printed: Mapping[str, Mapping[str, float]]) -> Line:
    """Return the line of a model on a task: per cent of right outputs, averaged over lengths, of its seeds."""
    by_seed = {run.seed: 100 * statistics.fmean(run.answers["share"].to_list()) for run in runs}
    best = max(runs, key=lambda run: by_seed[run.seed])
    line: Line = {"task": task, "model": model, "paper": printed.get(task, {}).get(model), "best": by_seed[best.seed]}
    line |= {"median": statistics.median(by_seed.values()), "seeds": sorted(by_seed)}
    return line | {"at training lengths": 100 * best.rows[-1]["train_accuracy"]}


def _cell(line: Line | None) -> str:
    """Return a cell of the table: the best and the median seed, and the paper's number."""
    if line is None:
        return "-"
    paper = "" if line["paper"] is None else f" \\| {line['paper']:.1f}"
    return f"{line['best']:.1f} ({line['median']:.1f}){paper}"
