"""Rows of tables without a network: the more frequent label, and classifiers of counts that cannot do mathematics."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.data.records import Record
from dgl_treestack.experiments.scales import Scale
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.results import archive
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import describe_environment

logger = logging.getLogger(__name__)

MAJORITY = "majority class"
CLASSIFIERS = {"bag of tokens": "tokens", "boosting on counts": "boosting on all"}  # label of a row -> `audit.baselines`
LABELS = (MAJORITY, *CLASSIFIERS)


def results(config: RunConfig, extras: Sequence[str], scale: Scale, folder: Path) -> list[RunResult]:
    """Return a result per label of LABELS, in the place of a run: fitted to the training set, tested as models are.

    The setting of a classifier is the one that is best on the validation set. Results are written to a file in `folder`, and
    read from it the next time. config: data and depths are those of this configuration. extras: names of `_extras.EXTRAS` whose
    labelled equations are predicted too.
    """
    files = {"train": config.data.train, "validation": config.data.validation, "test": config.data.test}
    files |= {name: (scale.extras[name],) for name in extras if name == "deep"}
    checksums = {kind: [sha256(find_data(name)) for name in names] for kind, names in files.items()}
    key = json.dumps([checksums, config.data.min_depth, config.data.max_depth])
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.zip"
    if not path.exists():
        logger.info("fitting classifiers of counts, %s", path.name)
        archive.write(path, _fit(config, files))  # with the training set, whether or not it is an extra
    return archive.read(path)


def _fit(config: RunConfig, files: Mapping[str, Sequence[str]]) -> list[RunResult]:
    """Return a result per label of LABELS. files: names of the files of every set."""
    from dgl_treestack.audit.baselines import BASELINES
    from dgl_treestack.audit.corpus import CorpusBuilder
    from dgl_treestack.audit.report import Options, fill

    examples_of_set: dict[str, list[Example]] = {}
    for kind, names in files.items():
        examples = [example for example in formats.read_examples(names) if example.label is not None]
        within = config.data.depths if kind in ("train", "validation") else range(10**9)
        examples_of_set[kind] = [example for example in examples if example.equation.depth in within]
    builder, rows, start = CorpusBuilder(list(files)), {}, 0
    for i, (kind, examples) in enumerate(examples_of_set.items()):
        fill(builder, i, examples, Options(verdicts=False, duplicates=False))
        rows[kind] = np.arange(start, start := start + len(examples))
    corpus = builder.corpus()
    label = {kind: corpus["label"][rows[kind]] for kind in files}
    frequent = int(label["train"].mean() > 0.5)
    predicted = {MAJORITY: {kind: np.full(len(rows[kind]), frequent) for kind in files}}
    for title, name in CLASSIFIERS.items():
        baseline = BASELINES[name]
        features = baseline.features(corpus, np.arange(len(corpus)))
        models = [baseline.build(setting, 1).fit(features[rows["train"]], label["train"]) for setting in baseline.settings]
        answers = [{kind: model.predict(features[rows[kind]]) for kind in files} for model in models]
        predicted[title] = max(answers, key=lambda by_set: float((by_set["validation"] == label["validation"]).mean()))
    environment = describe_environment("cpu")
    found = []
    for title, by_set in predicted.items():
        sets = {kind: _records(examples_of_set[kind], by_set[kind]) for kind in files}
        found.append(
            RunResult(
                Path(title),
                replace(config, name=title.replace(" ", "_")),
                0,
                [],
                sets.pop("validation"),
                sets.pop("test"),
                equations=len(rows["train"]),
                commit=environment["commit"] or "unknown",
                machine=f"{environment['processor']}, torch {environment['versions']['torch']}",
                more=sets,
            )
        )
    return found


def _records(examples: Sequence[Example], predicted: np.ndarray) -> list[Record]:
    """Return a record per example, with a score of -1 or 1."""
    rows = []
    for example, answer in zip(examples, predicted.tolist(), strict=True):
        names = {"pair": example.pair or "", "family": example.family or ""}
        correct = answer == example.label
        rows.append(records.of_example(example, score=2.0 * answer - 1.0, correct=correct, **names))
    return rows
