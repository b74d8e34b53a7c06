"""`treestack reproduce`: train the missing runs of protocols, then write their tables and figures."""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgl_treestack import atomic, plots
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.experiments import algorithmic, chomsky, collection, language_model, runs, tables
from dgl_treestack.experiments.extras import extras as all_extras
from dgl_treestack.experiments.protocol import (
    AUTHORS,
    EXTENTS,
    SCALES,
    Protocol,
    Scale,
    authors_files,
    check_data,
    protocols,
)
from dgl_treestack.processes import Jobs
from dgl_treestack.results import archive, report, run_result
from dgl_treestack.results.report import Line
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.training.start import check_seeds

logger = logging.getLogger(__name__)
ALL = "all"
RECORDS = "records.parquet"
# Experiments without runs on equations: each defines TITLE, SOURCE, `plan`, `prepare` and `write`.
APART = {"algorithmic": algorithmic, "language_model": language_model, "chomsky": chomsky}


def reproduce(
    names: Sequence[str],
    scale_name: str,
    output_dir: Path,
    *,
    seeds: Sequence[int] = (),
    data: Path | None = None,
    jobs: Jobs = 1,
    train: bool = True,
    from_records: Sequence[Path] = (),
    show: Callable[[str], None] = lambda text: None,
) -> int:
    """Train the missing runs of protocols, then write `<protocol>/table.md`, `.csv`, `records.parquet` and figures.

    names: of protocols, or `all`. seeds: override the scale's; experiments in APART use the first. data: the folder of the
    authors' equations. train: if false, only finished runs are used. from_records: files `records.parquet` of earlier tables;
    their runs are not trained again. show: called with the text of every table.

    Returns the exit code. Raises ConfigurationError for an unknown protocol or scale, DataError for missing data.
    """
    check = train or not from_records
    protocol_of, scale, planned, planned_apart = _plan(names, scale_name, output_dir, seeds, data, check=check)
    recorded = collection.read_records(from_records)
    code = 0
    if train:
        for name, runs_apart in planned_apart.items():
            APART[name].prepare(output_dir / name, EXTENTS[scale_name])
            planned += runs_apart
        code = runs.train_missing(planned, output_dir / "runs", output_dir / "configs", jobs=jobs, given=recorded)
    if code in (130, 143):  # 128 and the number of SIGINT or SIGTERM: who stops the runs waits for no tables
        return code
    options = f" --seeds {' '.join(map(str, seeds))}" if seeds else ""
    for name, protocol in protocol_of.items():
        command = f"`treestack reproduce {name} --scale {scale_name}{options}`"
        folder = output_dir / name
        results, without_network = collection.collect(protocol, scale, output_dir, recorded)
        lines, pairs, paragraphs = tables.make(protocol, results, without_network, scale, command)
        for file in (tables.PAIRS, *(f"{figure}.{suffix}" for figure in protocol.figures for suffix in ("svg", "png"))):
            (folder / file).unlink(missing_ok=True)  # of an earlier time
        all_results = [run for group in (results | without_network).values() for run in group]
        text = _write(folder, lines, paragraphs, all_results)
        if pairs:
            atomic.write_text(folder / tables.PAIRS, report.csv(pairs))
        for figure, labels in protocol.figures.items():
            drawn = {label: group for label, group in results.items() if group and label in (labels or results)}
            if not all({*protocol.extras} <= {*run.sets} for group in drawn.values() for run in group):
                logger.warning("%s: no figure %s, because the files of records have not all that it shows", name, figure)
            elif drawn:
                printed = {"paper": tables.paper_by_depth(protocol)} if figure == "usage" else {}
                plots.draw(figure, drawn, folder / figure, **printed)
        show(text)
    for name, runs_apart in planned_apart.items():
        results_apart = []
        for config, seed in runs_apart:
            if path := runs.finished(config, seed, output_dir / "runs"):
                results_apart.append(run_result.read_any(path))
            elif f"{config.name}-{seed}" in recorded:
                results_apart.append(recorded[f"{config.name}-{seed}"])
        if results_apart:
            folder, command = output_dir / name, f"`treestack reproduce {name} --scale {scale_name}`"
            lines, paragraphs = APART[name].write(folder, results_apart, EXTENTS[scale_name], command, scale.seeds[0])
            show(_write(folder, lines, paragraphs, results_apart))
    return code


def missing(
    names: Sequence[str],
    scale_name: str,
    output_dir: Path,
    *,
    seeds: Sequence[int] = (),
    data: Path | None = None,
    from_records: Sequence[Path] = (),
) -> list[str]:
    """Return the names of the missing runs of protocols. Raises the errors of `reproduce`."""
    _, _, planned, planned_apart = _plan(names, scale_name, output_dir, seeds, data, check=not from_records)
    planned += itertools.chain(*planned_apart.values())
    unfinished = runs.missing(planned, output_dir / "runs", given=collection.read_records(from_records))
    return [f"{config.name}-{seed}" for config, seed in unfinished]


def _plan(
    names: Sequence[str], scale_name: str, folder: Path, seeds: Sequence[int], data: Path | None, *, check: bool
) -> tuple[dict[str, Protocol], Scale, list[runs.Planned], dict[str, list[runs.Planned]]]:
    """Return the protocols by name, the scale, their runs, seed after seed, and the runs of the experiments in APART by name.

    seeds: in place of those of the scale, the protocols and their rows. check: whether the data have to exist.
    """
    all_names = (*protocols(), *APART)
    for kind, name, known in (*(("protocol", name, [*all_names, ALL]) for name in names), ("scale", scale_name, [*SCALES])):
        if name not in known:
            raise ConfigurationError(unknown(kind, name, known))
    scale = SCALES[scale_name]
    if data:
        scale = replace(scale, other_data={**scale.other_data, AUTHORS: authors_files(data)})
    names_of_all = scale.only or [name for name in all_names if name not in scale.left_out]
    chosen_names = {*names, *(names_of_all if ALL in names else ())}
    protocol_of = {name: protocol for name, protocol in protocols().items() if name in chosen_names}
    if seeds:
        check_seeds(seeds)
        scale = replace(scale, seeds=tuple(seeds))
        for name, protocol in protocol_of.items():
            protocol_of[name] = replace(protocol, seeds=None, rows=[replace(row, seeds=None) for row in protocol.rows])
    if protocol_of and check:
        extras = dict.fromkeys(all_extras()[name].data for protocol in protocol_of.values() for name in protocol.extras)
        check_data(scale, extras, dict.fromkeys(protocol.data for protocol in protocol_of.values()))
    planned_runs = [collection.plan(protocol, scale).values() for protocol in protocol_of.values()]
    planned: dict[tuple[str, int], runs.Planned] = {}
    planned |= {(config.name, seed): (config, seed) for rows in planned_runs for row in rows for config, seed in row}
    planned_apart = {}
    for name in APART:
        if name in chosen_names:
            if scale_name not in EXTENTS:
                raise ConfigurationError(unknown(f"scale of {name}", scale_name, EXTENTS))
            planned_apart[name] = APART[name].plan(folder / name, EXTENTS[scale_name], scale.seeds[0])
    return protocol_of, scale, sorted(planned.values(), key=lambda run: scale.seeds.index(run[1])), planned_apart


def describe() -> str:
    """Return the protocols and the scales as text, one per line."""
    titles = {name: (protocol.title, protocol.source) for name, protocol in protocols().items()}
    titles |= {name: (experiment.TITLE, experiment.SOURCE) for name, experiment in APART.items()}
    lines = [f"{name:<18} {title} ({source})" for name, (title, source) in titles.items()]
    return "\n".join([*lines, "", *(f"--scale {name:<10} {scale.summary}" for name, scale in SCALES.items())])


def _write(folder: Path, lines: Sequence[Line], paragraphs: Sequence[str], results: Sequence[RunResult]) -> str:
    """Write `table.md`, `table.csv` and `records.parquet` of an experiment. Returns the text of the first."""
    text = "\n\n".join(filter(None, paragraphs)) + "\n"
    atomic.write_text(folder / "table.md", text)
    atomic.write_text(folder / "table.csv", report.csv(lines))
    archive.write(folder / RECORDS, results)
    return text
