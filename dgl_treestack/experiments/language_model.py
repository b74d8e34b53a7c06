"""Joulin & Mikolov's table of language models, on a generated text."""

import hashlib
import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.experiments._protocol import read_data
from dgl_treestack.experiments.runs import Planned
from dgl_treestack.generate.presets import SetOptions, text
from dgl_treestack.generate.production import produce
from dgl_treestack.language.corpus import Corpus
from dgl_treestack.language.ngram import CACHE, DISCOUNT, ORDER, SHARE, KneserNey
from dgl_treestack.plain_data import replaced
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.results.differences import Line, holm, paired_t_test
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs import configuration
from dgl_treestack.runs.sequence_configuration import TextConfig
from dgl_treestack.training.text import ENOUGH, PARTS

logger = logging.getLogger(__name__)

TITLE = "Language models"
SOURCE = "Joulin & Mikolov 2015, Table 4"
GRAMS = ("5-gram", "5-gram with cache")
PAIRS = (("Stack RNN", "RNN"), ("Stack RNN", "LSTM"), ("Stack RNN", "SCRN"))  # what the paper says of its table
Perplexities = Mapping[str, Mapping[int, Mapping[str, float]]]  # label -> seed -> part of the text -> perplexity
CONFIGS = {"RNN": "rnn", "LSTM": "lstm", "SCRN": "scrn", "Stack RNN": "stack_rnn"}


@dataclass(frozen=True)
class Extent:
    """The scale of the experiment. sentences: of the text. seeds: how many. changes: values replaced in all configurations."""

    sentences: int = text.SENTENCES
    seeds: int = 3
    # With 32 streams an LSTM was at a validation perplexity of 109 after three epochs, with 8 at 60 (the 5-gram: 121).
    changes: Mapping[str, Any] = field(default_factory=lambda: {"streams": 8})


EXTENTS = {
    "smoke": Extent(300, 1, {"streams": 8, "epochs": 1, "hidden": 48, "window": 20}),
    "day": Extent(),
    "paper": Extent(),
}


def plan(folder: Path, scale_name: str, seed: int) -> list[Planned]:
    """Return all runs. The name of a configuration has a hash of it and of the text's size. folder: of the results."""
    extent, planned = EXTENTS[scale_name], list[Planned]()
    for name in CONFIGS.values():
        base: TextConfig = configuration.load_any(find_config(f"language_model/{name}"))
        config = replaced(base, extent.changes.items())
        key = json.dumps([asdict(config), extent.sentences], sort_keys=True)
        name_of_run = f"{config.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        config = replace(config, name=name_of_run, text=str(_text_folder(folder, extent)))
        planned += [(config, number) for number in range(seed, seed + extent.seeds)]
    return planned


def _text_folder(folder: Path, extent: Extent) -> Path:
    return folder / f"text-{extent.sentences}"


def prepare(folder: Path, scale_name: str) -> Mapping[str, Any]:
    """Generate the text, unless it is there. Returns the notes of its manifest."""
    extent = EXTENTS[scale_name]
    options = SetOptions(text.PRESET.seed, equations=extent.sentences)
    notes: Mapping[str, Any] = produce("text", options, _text_folder(folder, extent))["notes"]
    return notes


def ngram_perplexities(corpus: Corpus) -> dict[str, dict[str, float]]:
    """Return the perplexities of a 5-gram without and with a cache, by part of the text."""
    grams, perplexities = KneserNey(corpus.parts["train"], len(corpus.words)), {}
    for label, cache in zip(GRAMS, (False, True), strict=True):
        perplexities[label] = {part: grams.perplexity(corpus.parts[part], cache=cache) for part in PARTS}
        logger.info("%s: perplexity valid %.2f", label, perplexities[label]["valid"])
    return perplexities


def perplexities_of(run: RunResult) -> dict[str, float]:
    """Return the perplexities of a run by part of the text."""
    return {str(part): value for part, value in run.answers.select("id", "perplexity").rows()}


def write(folder: Path, runs: Sequence[RunResult], scale_name: str, seed: int) -> str:
    """Write `table.md`, `table.csv` and `pairs.csv`. Returns the table. The text is generated unless it is there."""
    notes, page = prepare(folder, scale_name), read_data("language_model.toml")
    grams = ngram_perplexities(Corpus.read(_text_folder(folder, EXTENTS[scale_name])))
    by_label: dict[str, dict[int, Mapping[str, float]]] = {label: {0: row} for label, row in grams.items()}
    for run in runs:
        by_label.setdefault(_label_of(run), {})[run.seed] = perplexities_of(run)
    lines, rows = _perplexities(by_label, page["paper"])
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    words = ", ".join(f"{name.split('.')[1]} {count:,}" for name, count in notes["words, without ends of sentences"].items())
    caption = page["caption"].format(words=words, vocabulary=notes["vocabulary"])
    parts = [f"# {TITLE}", f"{SOURCE}.", report.markdown_table(rows), caption]
    if pairs := _pairs(by_label, page["paper"]):
        atomic.write_text(folder / "pairs.csv", report.csv_table(pairs))
        parts += [page["pairs"], _pair_table(pairs)]
    constants = {"enough": ENOUGH, "order": ORDER, "discount": DISCOUNT, "cache": CACHE, "share": SHARE}
    differences = "\n".join(f"- {difference.format(**constants)}" for difference in page["differs"])
    parts += ["Settings.", _settings(runs), "What differs from the paper, or is not in it:", differences]
    origins = "; ".join(dict.fromkeys(run.origin for run in runs))
    origin = f"`treestack reproduce language_model --scale {scale_name}`, seeds from {seed} on. Trained at {origins}."
    seconds = [run.about["cpu_seconds"] for run in runs]
    if all(seconds):
        origin += f" Training took {sum(seconds) / 3600:.2f} CPU hours, with validation."
    table = "\n\n".join([*parts, origin]) + "\n"
    atomic.write_text(folder / "table.md", table)
    return table


def _label_of(run: RunResult) -> str:
    config: Any = run.config
    return next(label for label, name in CONFIGS.items() if name == config.model)


def _perplexities(by_label: Perplexities, printed: Mapping[str, Mapping[str, float]]) -> tuple[list[Line], list[list[str]]]:
    """Return a line per model and part, and the rows of a table of them. printed: label -> part -> the paper's number."""
    of_paper, lines = "paper, Penn Treebank", []
    rows = [["model", *(f"{part}: {column}" for column in (of_paper, "ours") for part in PARTS), "seeds"]]
    for label, by_seed in by_label.items():
        seeds, papers, ours = "-" if label in GRAMS else " ".join(map(str, sorted(by_seed))), [], []
        for part in PARTS:
            paper = printed[label].get(part)
            mean, deviation = report.over_seeds([by_seed[number][part] for number in sorted(by_seed)]) or (math.nan, None)
            line = {"model": label, "part": part, of_paper: paper, "ours": mean, "ours sd": deviation, "seeds": seeds}
            lines.append(line)
            papers.append("-" if paper is None else f"{paper:g}")
            ours.append(report.spread(mean, deviation, digits=2))
        rows.append([label, *papers, *ours, seeds])
    return lines, rows


def _pairs(by_label: Perplexities, printed: Mapping[str, Mapping[str, float]]) -> list[Line]:
    """Return the comparisons of `PAIRS` that have at least two seeds in common. printed: as for `_perplexities`."""
    pairs = list[Line]()
    for first, second in PAIRS:
        seeds = sorted(by_label.get(first, {}).keys() & by_label.get(second, {}).keys())
        logarithms = [[math.log(by_label[label][seed]["test"]) for seed in seeds] for label in (first, second)]
        if test := paired_t_test(*logarithms):
            p_value, interval = test
            means = [statistics.fmean(of_label) for of_label in logarithms]
            ours, low, high = (100 * math.expm1(difference) for difference in (means[0] - means[1], *interval))
            paper = 100 * (printed[first]["test"] / printed[second]["test"] - 1)
            pair = {"part": "test", "first": first, "second": second, "seeds": len(seeds), "paper, Penn Treebank": paper}
            pairs.append({**pair, "ours": ours, "low": low, "high": high, "p, seeds": p_value})
    corrected = holm([pair["p, seeds"] for pair in pairs])
    return [{**pair, "Holm, seeds": p_value} for pair, p_value in zip(pairs, corrected, strict=True)]


def _pair_table(pairs: Sequence[Line]) -> str:
    """Return the table of comparisons. pairs: as from `_pairs`."""
    rows = [["first", "second", "paper, Penn Treebank", "ours", "interval", "p, seeds", "Holm, seeds"]]
    for pair in pairs:
        paper, ours, low, high = (f"{pair[name]:+.1f}" for name in ("paper, Penn Treebank", "ours", "low", "high"))
        p_values = (f"{pair[name]:.3g}" for name in ("p, seeds", "Holm, seeds"))
        rows.append([pair["first"], pair["second"], paper, ours, f"{low} to {high}", *p_values])
    return report.markdown_table(rows)


def _settings(runs: Sequence[RunResult]) -> str:
    """Return the table of settings."""
    keys = ("hidden", "optimizer", "learning_rate", "factor", "patience", "epochs", "streams", "window", "clip")
    rows = [["model", "parameters", *keys, "epochs, trained", "further"]]
    for label in CONFIGS:
        if of_label := [run for run in runs if _label_of(run) == label]:
            config: Any = of_label[0].config
            epochs = [len(run.rows) for run in of_label]
            trained = " to ".join(map(str, dict.fromkeys((min(epochs), max(epochs)))))
            further = ", ".join(f"{key} {value}" for key, value in config.settings.items()) or "-"
            parameters = f"{of_label[0].about['parameters']:,}"
            rows.append([label, parameters, *(str(getattr(config, key)) for key in keys), trained, further])
    return report.markdown_table(rows)
