"""Joulin & Mikolov's table of language models, on a generated text."""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dgl_treestack import atomic
from dgl_treestack.generate.presets import Options, text
from dgl_treestack.generate.production import produce
from dgl_treestack.language.corpus import Corpus
from dgl_treestack.language.experiment import EXTENTS, Planned, plan_runs, train_runs
from dgl_treestack.language.model import LanguageModel
from dgl_treestack.language.ngram import CACHE, DISCOUNT, ORDER, SHARE
from dgl_treestack.language.training import ENOUGH, ngram_perplexities
from dgl_treestack.processes import Jobs
from dgl_treestack.results import report
from dgl_treestack.results.differences import holm, paired_t_test
from dgl_treestack.runs.environment import origin_of

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
GRAMS = ("5-gram", "5-gram with cache")
PAIRS = (("Stack RNN", "RNN"), ("Stack RNN", "LSTM"), ("Stack RNN", "SCRN"))  # what the paper says of its table
Line = dict[str, Any]


def runs(folder: Path, scale_name: str, seed: int) -> list[Path]:
    """Return the folders of all runs."""
    return [planned.folder for planned in plan_runs(folder, EXTENTS[scale_name], seed)]


def reproduce(folder: Path, scale_name: str, seed: int, *, jobs: Jobs = 1, training: bool = True) -> str:
    """Write the text and train missing runs, then write `table.md`, `table.csv` and `pairs.csv`. Returns the table, or ''.

    training: if false, only finished runs are used; without any, nothing is written. A run that diverges is left out. Raises
    Interrupted after Ctrl-C or SIGTERM; runs resume after their last epoch.
    """
    extent = EXTENTS[scale_name]
    plan = plan_runs(folder, extent, seed)
    if not training and not any(planned.is_done for planned in plan):
        return ""  # without making the text
    data = folder / f"text-{extent.sentences}"
    notes = produce("text", Options(text.PRESET.seed, equations=extent.sentences), data)["notes"]
    corpus = Corpus.read(data)
    if training:
        train_runs([planned for planned in plan if not planned.is_done], corpus, data, jobs)
    finished = [planned for planned in plan if planned.is_done]
    if not finished:
        return ""
    by_label: dict[str, dict[int, Mapping[str, float]]] = {label: {0: row} for label, row in ngram_perplexities(corpus)}
    for run in finished:
        by_label.setdefault(run.label, {})[run.seed] = json.loads((run.folder / "result.json").read_text())
    lines = list(_lines(by_label))
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    origins = dict.fromkeys(origin_of(json.loads((run.folder / "environment.json").read_text())) for run in finished)
    origin = (
        f"`treestack reproduce language_model --scale {scale_name}`, seeds from {seed} on. Trained at {'; '.join(origins)}."
    )
    seconds = [row.get("cpu_seconds", 0.0) for run in finished for row in run.read_metrics()]
    if all(seconds):
        origin += f" Training took {sum(seconds) / 3600:.2f} CPU hours, with validation."
    pairs = _pairs(by_label)
    if pairs:
        atomic.write_text(folder / "pairs.csv", report.csv_table(pairs))
    settings = [
        *_settings(finished, corpus),
        "What differs from the paper, or is not in it:",
        "\n".join(f"- {difference}" for difference in _DIFFERS),
    ]
    parts = [f"# {TITLE}", f"{SOURCE}.", *_results(lines, notes), *_pair_table(pairs), *settings, origin]
    table = "\n\n".join(parts) + "\n"
    atomic.write_text(folder / "table.md", table)
    return table


def _lines(by_label: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Iterator[Line]:
    """Yield a line per model and part of the text. by_label: label -> seed -> part -> perplexity."""
    for label, by_seed in by_label.items():
        for part, paper in zip(PARTS, PAPER[label], strict=True):
            values = [by_seed[number][part] for number in sorted(by_seed)]
            deviation = statistics.stdev(values) if len(values) > 1 else None
            line: Line = {"model": label, "part": part, "paper, Penn Treebank": paper, "ours": statistics.fmean(values)}
            yield {**line, "ours sd": deviation, "seeds": "-" if label in GRAMS else " ".join(map(str, sorted(by_seed)))}


_CAPTION = (
    "Perplexity, mean ± sample standard deviation over seeds; lower is better; ends of sentences count as words. The "
    "paper's are of the Penn Treebank, which cannot be shipped (`treestack train configs/language_model/*.toml --data "
    "FOLDER` trains on your copy); ours are of a generated text in an invented language, so that the two cannot be compared"
    " with each other, only models within one. The paper does not give the order of its n-grams. Words, without ends of "
    "sentences: {words}; {vocabulary:,} different ones."
)
_OF_PAIRS = (
    "Perplexity of the first of a pair on `test`, in per cent of that of the second, less 100; the pairs are what the paper"
    " says of its table. Ours: geometric mean over seeds, 95 % interval and p-value of a paired t-test of logarithms over "
    "seeds, p-values also corrected by Holm's method for the number of pairs; equal seeds of two models have nothing in "
    "common but the text. Whether a difference would hold on another text is not tested."
)
_DIFFERS = (
    "The text. That of this table is generated, with agreement over nested clauses, which may favour stacks.",
    "RNN, LSTM and SCRN have the Stack RNN's learning rate, clipping, windows and number of hidden units; for baselines "
    "the paper selects hyper-parameters on validation sets. The SCRN's `hidden` is the number of its sigmoid units and "
    "its context units together. All nets read word vectors of the size `hidden` through a matrix U; in the paper U has a "
    "column per word.",
    "The Stack RNN has the no-op, which the paper leaves open for this table, reads the two top rows of its stacks, and"
    " has stacks of 50 rows, where the paper's are unbounded.",
    "`streams` pieces of the text are read in parallel. Gradients go back to the start of a window and no further; "
    "states go on from window to window. Losses are summed over a window and averaged over streams, and every entry of "
    "a gradient is clipped. Validation and test text are each read as one stream from an empty state.",
    f"Only a validation entropy below {ENOUGH:g} times the best so far is progress. After any other epoch the rate is "
    "multiplied by `factor` and training goes on from the best weights; after `patience` such epochs in a row it ends, "
    "and the best weights are evaluated. The paper halves the rate when the entropy does not decrease, and does not say"
    " when it ends.",
    "Initial values: weights of a cell from U(-1/sqrt(H), 1/sqrt(H)) for H hidden units, those of the Stack RNN as in "
    "the authors' program, sums of three draws from U(-0.1, 0.1); word vectors normal with deviation 0.1; output weights 0.",
    f"The {ORDER}-gram has interpolated Kneser-Ney smoothing with a discount of {DISCOUNT:g}; its cache has {CACHE} words and "
    f"the share {SHARE:g} of the probability.",
)


def _results(lines: Sequence[Line], notes: Mapping[str, Any]) -> list[str]:
    """Return the table of perplexities and its caption. lines: as from `_lines`. notes: of the text's manifest."""
    of_paper = "paper, Penn Treebank"
    rows = [["model", *(f"{part}: {column}" for column in (of_paper, "ours") for part in PARTS), "seeds"]]
    for label in dict.fromkeys(line["model"] for line in lines):
        of_model = [line for line in lines if line["model"] == label]
        papers = ["-" if line[of_paper] is None else f"{line[of_paper]:g}" for line in of_model]
        ours = [report.spread(line["ours"], line["ours sd"], digits=2) for line in of_model]
        rows.append([label, *papers, *ours, of_model[0]["seeds"]])
    words = ", ".join(f"{name.split('.')[1]} {count:,}" for name, count in notes["words, without ends of sentences"].items())
    return [report.markdown_table(rows), _CAPTION.format(words=words, vocabulary=notes["vocabulary"])]


def _pairs(by_label: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[Line]:
    """Return the comparisons of `PAIRS` that have at least two seeds in common. by_label: as for `_lines`."""
    pairs: list[Line] = []
    for first, second in PAIRS:
        seeds = sorted(by_label.get(first, {}).keys() & by_label.get(second, {}).keys())
        logarithms = [[math.log(by_label[label][seed]["test"]) for seed in seeds] for label in (first, second)]
        if test := paired_t_test(*logarithms):
            p_value, interval = test
            means = [statistics.fmean(of_label) for of_label in logarithms]
            ours, low, high = (100 * math.expm1(difference) for difference in (means[0] - means[1], *interval))
            paper = 100 * (PAPER[first][1] / PAPER[second][1] - 1)
            pair = {"part": "test", "first": first, "second": second, "seeds": len(seeds), "paper, Penn Treebank": paper}
            pairs.append({**pair, "ours": ours, "low": low, "high": high, "p, seeds": p_value})
    corrected = holm([pair["p, seeds"] for pair in pairs])
    return [{**pair, "Holm, seeds": p_value} for pair, p_value in zip(pairs, corrected, strict=True)]


def _pair_table(pairs: Sequence[Line]) -> list[str]:
    """Return the table of comparisons and its caption, nothing without comparisons. pairs: as from `_pairs`."""
    if not pairs:
        return []
    rows = [["first", "second", "paper, Penn Treebank", "ours", "interval", "p, seeds", "Holm, seeds"]]
    for pair in pairs:
        paper, ours, low, high = (f"{pair[name]:+.1f}" for name in ("paper, Penn Treebank", "ours", "low", "high"))
        p_values = (f"{pair[name]:.3g}" for name in ("p, seeds", "Holm, seeds"))
        rows.append([pair["first"], pair["second"], paper, ours, f"{low} to {high}", *p_values])
    return [_OF_PAIRS, report.markdown_table(rows)]


def _settings(finished: Sequence[Planned], corpus: Corpus) -> list[str]:
    """Return the table of settings."""
    keys = ("hidden", "optimizer", "learning_rate", "factor", "patience", "epochs", "streams", "window", "clip")
    rows = [["model", "parameters", *keys, "epochs, trained", "further"]]
    for label, config in {run.label: run.config for run in finished}.items():
        parameters = sum(parameter.numel() for parameter in LanguageModel(config.cell(), len(corpus.words)).parameters())
        epochs = [len(run.read_metrics()) for run in finished if run.label == label]
        trained = " to ".join(map(str, dict.fromkeys((min(epochs), max(epochs)))))
        further = ", ".join(f"{key} {value}" for key, value in config.settings.items()) or "-"
        rows.append([label, f"{parameters:,}", *(str(getattr(config, key)) for key in keys), trained, further])
    return ["Settings.", report.markdown_table(rows)]
