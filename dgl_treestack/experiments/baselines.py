"""Rows of tables without a network: the more frequent label, and classifiers of counts that cannot do mathematics."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dgl_treestack import __version__
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.experiments.extras import extras as all_extras
from dgl_treestack.experiments.protocol import Scale
from dgl_treestack.resources import find_data, sha256
from dgl_treestack.results import archive
from dgl_treestack.results.run_result import OWN, RunResult
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.environment import describe_environment, machine_of

logger = logging.getLogger(__name__)

MAJORITY = "majority class"
CLASSIFIERS = {"bag of tokens": "tokens", "boosting on counts": "boosting on all"}  # label of a row -> `audit.leakage`
LABELS = (MAJORITY, *CLASSIFIERS)


def results(
    config: RunConfig, extras: Sequence[str], scale: Scale, folder: Path, given: Mapping[str, RunResult]
) -> dict[str, RunResult]:
    """Return a result per label of LABELS, in the place of a run: fitted to the training set, tested as models are.

    The setting of a classifier is the one that is best on the validation set. Results are written to a file in `folder`, and
    read from it the next time. config: data and depths are those of this configuration. extras: names of `extras.extras`, of
    which those are predicted that are answers to equations. given: runs by name, in which the results may be.
    """
    files: dict[str, Sequence[str]] = {kind: getattr(config.data, kind) for kind in ("train", "validation", "test")}
    answered = [name for name in extras if not all_extras()[name].kind and name != "train"]
    files |= {name: (scale.file(all_extras()[name].data),) for name in answered}
    # Names depend on those of the data and on the depths, so that files of records are joined without the data.
    key = json.dumps([files, config.data.min_depth, config.data.max_depth])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    name_of_label = {label: f"{label.replace(' ', '_')}-{digest}" for label in LABELS}
    if all(f"{name}-0" in given for name in name_of_label.values()):
        return {label: given[f"{name}-0"] for label, name in name_of_label.items()}
    checksums = [sha256(find_data(name)) for paths in files.values() for name in paths]
    key = json.dumps([__version__, checksums, name_of_label])
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.parquet"
    if not path.exists():
        logger.info("fitting classifiers of counts, %s", path.name)
        archive.write(path, _fit(config, files, name_of_label))
    return dict(zip(LABELS, archive.read(path), strict=True))


def _fit(config: RunConfig, files: Mapping[str, Sequence[str]], name_of_label: Mapping[str, str]) -> list[RunResult]:
    """Return a result per label of LABELS. files: names of the files of every set."""
    from dgl_treestack.audit.corpus import build
    from dgl_treestack.audit.leakage import BASELINES

    examples_of_set: dict[str, list[Example]] = {}
    for kind, paths in files.items():
        examples = [example for example in formats.read_examples(paths) if example.label is not None]
        if kind == "validation":
            examples = [example for example in examples if example.equation.depth in config.data.depths]
        examples_of_set[kind] = examples
    fitted = np.array([example.equation.depth in config.data.depths for example in examples_of_set["train"]])
    corpus = build(examples_of_set.items())
    rows = {kind: np.flatnonzero(corpus["file"] == file) for file, kind in enumerate(examples_of_set)}
    fitted_rows = rows["train"][fitted]
    fitted_labels, validation_labels = corpus["label"][fitted_rows], corpus["label"][rows["validation"]]
    frequent = int(fitted_labels.mean() >= 0.5)
    predicted_of = {MAJORITY: {kind: np.full(len(of_set), frequent) for kind, of_set in rows.items()}}
    for title, name in CLASSIFIERS.items():
        baseline = BASELINES[name]
        features = baseline.features(corpus, np.arange(len(corpus)), fitted_rows)
        with threadpool_limits(1):  # threads that wait for a busy processor are many times slower than one
            models = [baseline.build(setting, 1).fit(features[fitted_rows], fitted_labels) for setting in baseline.settings]
            answers = [{kind: model.predict(features[of_set]) for kind, of_set in rows.items()} for model in models]
        predicted_of[title] = max(answers, key=lambda by_set: float((by_set["validation"] == validation_labels).mean()))
    environment = describe_environment("cpu")
    origin = {"commit": environment["commit"] or "unknown", "machine": machine_of(environment)}
    about = {"equations": int(fitted.sum()), **origin}
    without_network = []
    for title, predicted_of_set in predicted_of.items():
        result = RunResult(Path(title), replace(config, name=name_of_label[title]), 0, [], records.joined([]), about)
        for kind, examples in examples_of_set.items():
            predicted = predicted_of_set[kind]
            correct = [answer == example.label for example, answer in zip(examples, predicted.tolist(), strict=True)]
            table = records.of_examples(examples, {"score": (2.0 * predicted - 1.0).tolist(), "correct": correct})
            result = result.with_set(kind, table if kind in OWN else all_extras()[kind].select(table))
        without_network.append(result)
    return without_network
