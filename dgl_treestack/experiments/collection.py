"""The results that a table is made from: finished runs, runs of files of records, and rows without a network.

The latter are the more frequent label, and classifiers of counts that cannot do mathematics.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from dgl_treestack import __version__, plain_data
from dgl_treestack.data import formats, records
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import DataError
from dgl_treestack.experiments import runs
from dgl_treestack.experiments.extras import extras, make_missing
from dgl_treestack.experiments.protocol import Protocol, Results, Row, Scale
from dgl_treestack.resources import find_config, find_data, sha256
from dgl_treestack.results import archive, run_result
from dgl_treestack.results.run_result import OWN, RunResult
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.environment import describe_environment, machine_of
from dgl_treestack.runs.run import Run

logger = logging.getLogger(__name__)

MAJORITY = "majority class"
CLASSIFIERS = {"bag of tokens": "tokens", "boosting on counts": "boosting on all"}  # label of a row -> `audit.leakage`
LABELS = (MAJORITY, *CLASSIFIERS)


def results_without_network(
    config: RunConfig, names: Sequence[str], scale: Scale, folder: Path, given: Mapping[str, RunResult]
) -> dict[str, RunResult]:
    """Return a result per label of LABELS, in the place of a run: fitted to the training set, tested as models are.

    The setting of a classifier is the one that is best on the validation set. Results are written to a file in `folder`, and
    read from it the next time. config: data and depths are those of this configuration. names: of `extras.extras`, of
    which those are predicted that are answers to equations. given: runs by name, in which the results may be.
    """
    files: dict[str, Sequence[str]] = {kind: getattr(config.data, kind) for kind in ("train", "validation", "test")}
    answered = [name for name in names if not extras()[name].kind and name != "train"]
    files |= {name: (scale.file(extras()[name].data),) for name in answered}
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
            result = result.with_set(kind, table if kind in OWN else extras()[kind].select(table))
        without_network.append(result)
    return without_network


def configure(row: Row, protocol: Protocol, scale: Scale) -> RunConfig:
    """Return the configuration of a row. Its name is that of the model and a hash, so that protocols share equal runs."""
    data = {f"data.{kind}": [name] for kind, name in scale.files(protocol.data).items()}
    depths = {"data.min_depth": protocol.depths[0], "data.max_depth": protocol.depths[1]}
    base = configuration.load(find_config(row.config if "/" in row.config else f"models/{row.config}"))
    changes = {**data, **depths, **scale.changes, **scale.own.get(row.config, {}), **row.changes}
    config = plain_data.replaced(base, changes.items())
    return replace(config, name=f"{row.config.replace('/', '-')}-{config.hash}")


def plan(protocol: Protocol, scale: Scale) -> dict[str, list[tuple[RunConfig, int]]]:
    """Return the runs of a protocol by the label of their row."""
    planned = {}
    for row in protocol.rows:
        config = configure(row, protocol, scale)
        planned[row.label] = [(config, seed) for seed in scale.seeds[: protocol.seeds][: row.seeds]]
    return planned


def read_records(files: Sequence[Path]) -> dict[str, RunResult]:
    """Return the runs in files of records, by the names of their folders; what several files have of one run is joined.

    Raises DataError when two files have different runs of one name.
    """
    run_by_name: dict[str, RunResult] = {}
    for path in files:
        for run in archive.read(path):
            name = f"{run.config.name}-{run.seed}"
            other = run_by_name.get(name, run)
            is_trained = bool(run.rows)  # rows without a network are the same from any commit on any machine
            origins = [(each.about["commit"], each.about["machine"], each.rows) for each in (run, other)]
            if is_trained and origins[0] != origins[1]:
                raise DataError(f"Its run {name} is not that of {other.folder}. Leave one of the files out.", path)
            # `capacity` and `systematicity` share runs, but each file has the sets of its own experiment only.
            only_there = [name for name in other.sets if name not in run.sets]
            of_other = other.answers.filter(pl.col("set").cast(pl.String).is_in(only_there))
            run_by_name[name] = replace(
                run,
                answers=records.joined([run.answers, of_other]) if only_there else run.answers,
                about={
                    **{**other.about, **run.about},
                    "sets": list(dict.fromkeys((*other.sets, *run.sets))),
                    "values": {**other.about.get("values", {}), **run.about.get("values", {})},
                    **{name: max(each.about.get(name, 0) for each in (run, other)) for name in ("cpu_seconds", "parameters")},
                },
            )
    return run_by_name


def collect(protocol: Protocol, scale: Scale, folder: Path, given: Mapping[str, RunResult]) -> tuple[Results, Results]:
    """Return the results of a protocol's rows, and those of the rows without a network, which may be none.

    folder: has the folder `runs` of runs, and `baselines`; extras that its runs lack are computed. given: runs of files of
    records, by name; a finished run in the folder is preferred. Raises DataError when a run lacks records, or has those of
    other equations than the others.
    """
    planned, results = plan(protocol, scale), Results()
    finished = [runs.finished(config, seed, folder / "runs") for of_row in planned.values() for config, seed in of_row]
    make_missing([Run.open(path) for path in finished if path], protocol.extras, scale)
    # Runs of two machines may share a table, which then says whose is whose: to refuse them would mean to train half of
    # 70 runs again after every change of machine.
    for label, of_row in planned.items():
        runs_of_row = [_find(config, seed, protocol, scale, folder / "runs", given) for config, seed in of_row]
        results[label] = [run for run in runs_of_row if run is not None]
    without_network: Results = {}
    if protocol.baselines:
        config = configure(protocol.rows[0], protocol, scale)
        fitted = results_without_network(config, protocol.extras, scale, folder / "baselines", given)
        without_network = {label: [_reduced(run, protocol)] for label, run in fitted.items()}
    first_of_set: dict[str, tuple[RunResult, int]] = {}
    for run in (run for group in (*results.values(), *without_network.values()) for run in group):
        for name_of_set in (*OWN, *run.sets):
            rows = run.of(name_of_set).select(pl.col("id", "label").cast(pl.String), pl.col("depth").cast(pl.Int64)).hash_rows()
            identity = hash(rows.to_numpy().tobytes())
            other, expected = first_of_set.setdefault(name_of_set, (run, identity))
            if identity != expected:
                raise DataError(
                    f"Its records {name_of_set!r} are of other equations than those of {other.folder}. Were the data generated "
                    "anew in between? Leave one of the two out, or train it again.",
                    run.folder,
                )
    return results, without_network


def _find(
    config: RunConfig, seed: int, protocol: Protocol, scale: Scale, folder: Path, given: Mapping[str, RunResult]
) -> RunResult | None:
    """Return a run with the records that a protocol needs, from its folder or from `given`; None if there is none."""
    name = f"{config.name}-{seed}"
    if path := runs.finished(config, seed, folder):
        opened, result = Run.open(path), run_result.with_origin(run_result.read(path))
        for name_of_set in protocol.extras:
            extra = extras()[name_of_set]
            records_of_set = opened.read_records(scale.file(extra.data), extra.kind)
            result = result.with_set(name_of_set, extra.select(records_of_set))
        if archive.with_vectors(result.answers):
            values = {column.title: column.of(result) for column in protocol.columns}
            result = replace(result, about={**result.about, "values": values})
        return result
    if name not in given:
        return None
    result = _reduced(given[name], protocol)
    lacking = [name_of_set for name_of_set in protocol.extras if name_of_set not in result.sets]
    if lacking and not {column.title for column in protocol.columns} <= result.about.get("values", {}).keys():
        raise DataError(
            f"Its run {name} has no records {lacking[0]!r}, which this experiment needs. Give the file that this "
            "version has made for the experiment, or train again.",
            result.folder,
        )
    return result


def _reduced(run: RunResult, protocol: Protocol) -> RunResult:
    """Return a run without what other experiments need of it."""
    sets = [name for name in protocol.extras if name in run.sets]
    titles = {column.title for column in protocol.columns} if len(sets) < len(protocol.extras) else set()
    values = {title: value for title, value in run.about.get("values", {}).items() if title in titles}
    answers = run.answers.filter(pl.col("set").cast(pl.String).is_in([*OWN, *sets]))
    return replace(run, answers=answers, about={**run.about, "sets": sets, "values": values})
