"""Joulin & Mikolov's table of language models, on a generated text."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.generate.presets import Options, text
from dgl_treestack.generate.production import produce
from dgl_treestack.language import configuration
from dgl_treestack.language.configuration import LanguageConfig
from dgl_treestack.language.training import train
from dgl_treestack.processes import workers
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.results.run_result import machine_of

TITLE = "Language models"
SOURCE = "Joulin & Mikolov 2015, Table 4"
KEPT = ("config.toml", "environment.json", "metrics.jsonl", "result.json", "DONE")
PARTS = ("valid", "test")
# Perplexities on the Penn Treebank: validation, test.
PAPER: Mapping[str, tuple[float | None, float]] = {
    "5-gram": (None, 141),
    "5-gram with cache": (None, 125),
    "RNN": (137, 129),
    "LSTM": (120, 115),
    "SCRN": (120, 115),
    "Stack RNN": (124, 118),
}
CONFIGS = {"RNN": "rnn", "LSTM": "lstm", "SCRN": "scrn", "Stack RNN": "stack_rnn"}
GRAMS = ("5-gram", "5-gram with cache")
Line = dict[str, Any]


@dataclass(frozen=True)
class Extent:
    """The scale of the experiment. sentences: of the text. seeds: how many. changes: values replaced in all configurations."""

    sentences: int = text.SENTENCES
    seeds: int = 3
    changes: Mapping[str, Any] = field(default_factory=lambda: {"streams": 8})


EXTENTS = {
    "smoke": Extent(300, 1, {"streams": 8, "epochs": 1, "hidden": 48, "window": 20}),
    "day": Extent(),
    "paper": Extent(),
}


def missing(folder: Path, scale_name: str, seed: int) -> list[str]:
    """Return the names of the runs that are not done."""
    return [path.name for path in _runs(folder, EXTENTS[scale_name], seed) if not (path / "DONE").exists()]


def reproduce(folder: Path, scale_name: str, seed: int, *, jobs: int = 1, training: bool = True) -> str:
    """Write the text and train missing runs, then write `table.md` and `table.csv`. Returns the text of the table, or ''.

    training: if false, only finished runs are used; without any, nothing is written.
    """
    extent = EXTENTS[scale_name]
    runs = _runs(folder, extent, seed)
    chosen = {path: run for path, run in runs.items() if training or (path / "DONE").exists()}
    if not chosen:
        return ""
    options = Options(text.PRESET.seed, equations=extent.sentences)
    notes = produce("text", options, folder / "runs" / "text")["notes"]
    work = [(config, folder / "runs" / "text", folder / "runs", number) for _, config, number in chosen.values()]
    if jobs > 1:
        with workers(jobs) as pool:
            results = list(pool.map(_train, work))
    else:
        results = list(map(_train, work))
    by_label: dict[str, dict[int, dict[str, float]]] = {label: {0: results[0][label]} for label in GRAMS}
    for result, (label, config, number) in zip(results, chosen.values(), strict=True):
        by_label.setdefault(label, {})[number] = result[f"{config.name}-{number}"]
    lines = list(_lines(by_label))
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    environment = json.loads((next(iter(chosen)) / "environment.json").read_text())
    command = f"treestack reproduce language_model --scale {scale_name}"
    table = _markdown(
        lines, notes, {label: config for label, config, _ in chosen.values()}, f"`{command}`. {_origin(environment)}"
    )
    atomic.write_text(folder / "table.md", table)
    return table


def _runs(folder: Path, extent: Extent, seed: int) -> dict[Path, tuple[str, LanguageConfig, int]]:
    """Return the folders of all runs, each with the label of its model, its configuration and its seed."""
    assignments = [f"{key}={json.dumps(value)}" for key, value in extent.changes.items()]
    runs = {}
    for label, name in CONFIGS.items():
        config = configuration.load(find_config(f"language_model/{name}"), assignments)
        for number in range(seed, seed + extent.seeds):
            runs[folder / "runs" / f"{config.name}-{number}"] = label, config, number
    return runs


def _train(work: tuple[LanguageConfig, Path, Path, int]) -> dict[str, dict[str, float]]:
    """Train or read one run, in this process or a worker. Returns the perplexities of the run and of n-grams, by name."""
    config, data, output_dir, seed = work
    return dict(train([config], data, output_dir, [seed], resume=True, quiet=True))


def _lines(by_label: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Iterator[Line]:
    """Yield a line per model and part of the text. by_label: label -> seed -> part -> perplexity."""
    for label, by_seed in by_label.items():
        for part, paper in zip(PARTS, PAPER[label], strict=True):
            values = [by_seed[number][part] for number in sorted(by_seed)]
            deviation = statistics.stdev(values) if len(values) > 1 else None
            line: Line = {"model": label, "part": part, "paper, Penn Treebank": paper, "ours": statistics.fmean(values)}
            yield {**line, "ours sd": deviation, "seeds": "-" if label in GRAMS else " ".join(map(str, sorted(by_seed)))}


_CAPTION = (
    "Perplexity, mean ± sample standard deviation over seeds; lower is better. The paper's are of the Penn Treebank, which "
    "cannot be shipped (`treestack train configs/language_model/*.toml --data FOLDER` trains on your copy); ours are of a "
    "generated text in an invented language, so that the columns cannot be compared with each other, only models within one. "
    "Words, without ends of sentences: {words}; {vocabulary:,} different ones."
)


def _markdown(lines: Sequence[Line], notes: Mapping[str, Any], configs: Mapping[str, LanguageConfig], origin: str) -> str:
    """Return the table. lines: as from `_lines`. notes: of the text's manifest. configs: by label."""
    rows = [["model", *(f"{part}: {column}" for part in PARTS for column in ("paper, Penn Treebank", "ours")), "seeds"]]
    for label in dict.fromkeys(line["model"] for line in lines):
        of_model = [line for line in lines if line["model"] == label]
        cells = []
        for line in of_model:
            paper = line["paper, Penn Treebank"]
            cells += ["-" if paper is None else f"{paper:g}", report.spread(line["ours"], line["ours sd"])]
        rows.append([label, *cells, of_model[0]["seeds"]])
    keys = ("hidden", "optimizer", "learning_rate", "factor", "patience", "epochs", "streams", "window", "clip")
    settings = [["model", *keys, "further"]]
    for label, config in configs.items():
        further = ", ".join(f"{key} {value}" for key, value in config.settings.items()) or "-"
        settings.append([label, *(str(getattr(config, key)) for key in keys), further])
    words = ", ".join(f"{name.split('.')[1]} {count:,}" for name, count in notes["words, without ends of sentences"].items())
    caption = _CAPTION.format(words=words, vocabulary=notes["vocabulary"])
    parts = [f"# {TITLE}", f"{SOURCE}.", report.markdown_table(rows), caption, "Settings.", report.markdown_table(settings)]
    return "\n\n".join([*parts, origin]) + "\n"


def _origin(environment: Mapping[str, Any]) -> str:
    return f"Trained at commit {environment.get('commit') or 'unknown'}, {machine_of(environment)}."
