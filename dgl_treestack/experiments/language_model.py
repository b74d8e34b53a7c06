"""Joulin & Mikolov's table of language models, on a generated text."""

import hashlib
import json
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.experiments.protocol import Extent, read_data
from dgl_treestack.experiments.runs import Planned
from dgl_treestack.generate.presets import SetOptions, text
from dgl_treestack.generate.production import produce
from dgl_treestack.language.corpus import WordCorpus
from dgl_treestack.language.models import CACHE, DISCOUNT, ORDER, SHARE, KneserNey
from dgl_treestack.plain_data import replaced
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.results.report import Line, holm, paired_t_test
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


def plan(folder: Path, extent: Extent, seed: int) -> list[Planned]:
    """Return all runs. The name of a configuration has a hash of it and of the text's size. folder: of the results."""
    planned = list[Planned]()
    for name in CONFIGS.values():
        base: TextConfig = configuration.load_any(find_config(f"language_model/{name}"))
        config = replaced(base, extent.changes.items())
        key = json.dumps([asdict(config), extent.sentences], sort_keys=True)
        name_of_run = f"{config.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        config = replace(config, name=name_of_run, text=str(folder / f"text-{extent.sentences}"))
        planned += [(config, number) for number in range(seed, seed + extent.seeds)]
    return planned


def prepare(folder: Path, extent: Extent) -> Mapping[str, Any]:
    """Generate the text, unless it is there. Returns the notes of its manifest."""
    options = SetOptions(text.PRESET.seed, equations=extent.sentences)
    notes: Mapping[str, Any] = produce("text", options, folder / f"text-{extent.sentences}")["notes"]
    return notes


def ngram_perplexities(corpus: WordCorpus) -> dict[str, dict[str, float]]:
    """Return the perplexities of a 5-gram without and with a cache, by part of the text."""
    grams, perplexities = KneserNey(corpus.parts["train"], len(corpus.words)), {}
    for label, cache in zip(GRAMS, (False, True), strict=True):
        perplexities[label] = {part: grams.perplexity(corpus.parts[part], cache=cache) for part in PARTS}
        logger.info("%s: perplexity valid %.2f", label, perplexities[label]["valid"])
    return perplexities


def perplexities_of(run: RunResult) -> dict[str, float]:
    """Return the perplexities of a run by part of the text."""
    return {str(part): value for part, value in run.answers.select("id", "perplexity").rows()}


def write(folder: Path, runs: Sequence[RunResult], extent: Extent, command: str, seed: int) -> tuple[list[Line], list[str]]:
    """Write `pairs.csv`. Returns the lines and paragraphs of the table. The text is generated unless it is there."""
    notes, page = prepare(folder, extent), read_data("language_model.toml")
    grams = ngram_perplexities(WordCorpus.read(folder / f"text-{extent.sentences}"))
    label_of, runs_of = {name: label for label, name in CONFIGS.items()}, dict[str, list[RunResult]]()
    for run in runs:
        config: Any = run.config
        runs_of.setdefault(label_of[config.model], []).append(run)
    by_label: dict[str, Mapping[int, Mapping[str, float]]] = {label: {0: row} for label, row in grams.items()}
    by_label |= {label: {run.seed: perplexities_of(run) for run in of_label} for label, of_label in runs_of.items()}
    lines, rows = _perplexities(by_label, page["paper"])
    words = ", ".join(f"{name.split('.')[1]} {count:,}" for name, count in notes["words, without ends of sentences"].items())
    caption = page["caption"].format(words=words, vocabulary=notes["vocabulary"])
    paragraphs = [f"# {TITLE}", f"{SOURCE}.", report.markdown_table(rows), caption]
    pairs, rows_of_pairs = _pairs(by_label, page["paper"])
    if pairs:
        atomic.write_text(folder / "pairs.csv", report.csv(pairs))
        paragraphs += [page["pairs"], report.markdown_table(rows_of_pairs)]
    keys = ("hidden", "optimizer", "learning_rate", "factor", "patience", "epochs", "streams", "window", "clip")
    settings = [["model", "parameters", *keys, "epochs, trained", "further"]]
    for label, of_label in runs_of.items():
        config, epochs = of_label[0].config, [len(run.rows) for run in of_label]
        trained = " to ".join(map(str, dict.fromkeys((min(epochs), max(epochs)))))
        further = ", ".join(f"{key} {value}" for key, value in config.settings.items()) or "-"
        parameters = f"{of_label[0].about['parameters']:,}"
        settings.append([label, parameters, *(str(getattr(config, key)) for key in keys), trained, further])
    constants = {"enough": ENOUGH, "order": ORDER, "discount": DISCOUNT, "cache": CACHE, "share": SHARE}
    differences = "\n".join(f"- {difference.format(**constants)}" for difference in page["differs"])
    paragraphs += ["Settings.", report.markdown_table(settings), "What differs from the paper, or is not in it:", differences]
    origin = f"{command}, seeds from {seed} on. Trained at {'; '.join(dict.fromkeys(run.origin for run in runs))}."
    seconds = [run.about["cpu_seconds"] for run in runs]
    if all(seconds):
        origin += f" Training took {sum(seconds) / 3600:.2f} CPU hours, with validation."
    return lines, [*paragraphs, origin]


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


def _pairs(by_label: Perplexities, printed: Mapping[str, Mapping[str, float]]) -> tuple[list[Line], list[list[str]]]:
    """Return a line and a row of a table for each of `PAIRS` that has two seeds in common, see `_perplexities`."""
    pairs, of_paper = list[Line](), "paper, Penn Treebank"
    for first, second in PAIRS:
        seeds = sorted(by_label.get(first, {}).keys() & by_label.get(second, {}).keys())
        logarithms = [[math.log(by_label[label][seed]["test"]) for seed in seeds] for label in (first, second)]
        if test := paired_t_test(*logarithms):
            p_value, interval = test
            means = [statistics.fmean(of_label) for of_label in logarithms]
            ours, low, high = (100 * math.expm1(difference) for difference in (means[0] - means[1], *interval))
            paper = 100 * (printed[first]["test"] / printed[second]["test"] - 1)
            pair: Line = {"part": "test", "first": first, "second": second, "seeds": len(seeds), of_paper: paper}
            pairs.append({**pair, "ours": ours, "low": low, "high": high, "p, seeds": p_value})
    rows = [["first", "second", of_paper, "ours", "interval", "p, seeds", "Holm, seeds"]]
    for pair, p_value in zip(pairs, holm([pair["p, seeds"] for pair in pairs]), strict=True):
        pair["Holm, seeds"] = p_value
        interval_of_pair = f"{pair['low']:+.1f} to {pair['high']:+.1f}"
        p_values = (f"{pair[name]:.3g}" for name in ("p, seeds", "Holm, seeds"))
        points = (f"{pair[name]:+.1f}" for name in (of_paper, "ours"))
        rows.append([pair["first"], pair["second"], *points, interval_of_pair, *p_values])
    return pairs, rows
