"""`treestack reproduce`: train the missing runs of protocols, then write their tables and figures."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgl_treestack import atomic, plots
from dgl_treestack.algorithmic import tables as algorithmic
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.experiments import runs, tables
from dgl_treestack.experiments._extras import measured
from dgl_treestack.experiments._protocol import Protocol, Row
from dgl_treestack.experiments.protocols import protocols
from dgl_treestack.experiments.scales import SCALES, Scale, check_data
from dgl_treestack.resources import find_config
from dgl_treestack.results import report
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import check_seeds

ALL = "all"
# Experiments without runs on equations: each defines TITLE, SOURCE, `missing` and `reproduce`.
SEPARATE = {"algorithmic": algorithmic}


def reproduce(
    names: Sequence[str],
    scale_name: str,
    output_dir: Path,
    *,
    seeds: Sequence[int] = (),
    jobs: int = 1,
    train: bool = True,
    show: Callable[[str], None] = lambda text: None,
) -> int:
    """Train the missing runs of protocols, then write `<protocol>/table.md`, `.csv` and figures as `.svg` and `.png`.

    names: of protocols, or `all`. seeds: override the scale's; experiments in SEPARATE use the first. train: if false, only
    finished runs are used. show: called with the text of every table.

    Returns the exit code. Raises ConfigurationError for an unknown protocol or scale, DataError for missing data.
    """
    protocol_of, scale, configs = _plan(names, scale_name, seeds)
    code = 0
    if train:
        code = runs.train_missing(configs, scale.seeds, output_dir / "runs", output_dir / "configs", jobs=jobs)
    if code in (130, 143):
        return code
    command = f"--scale {scale_name}" + (f" --seeds {' '.join(map(str, seeds))}" if seeds else "")
    for name, protocol in protocol_of.items():
        show(_write_results(output_dir / name, protocol, scale, f"treestack reproduce {name} {command}"))
    for name, experiment in SEPARATE.items():
        if name in names or ALL in names:
            text = experiment.reproduce(output_dir / name, scale_name, scale.seeds[0], jobs=jobs, training=train)
            if text:
                show(text)
    return code


def missing(names: Sequence[str], scale_name: str, output_dir: Path, *, seeds: Sequence[int] = ()) -> list[str]:
    """Return the names of the missing runs of protocols. Raises the errors of `reproduce`."""
    _, scale, configs = _plan(names, scale_name, seeds)
    run_names = runs.missing(configs, scale.seeds, output_dir / "runs")
    for name, experiment in SEPARATE.items():
        if name in names or ALL in names:
            run_names += experiment.missing(output_dir / name, scale_name, scale.seeds[0])
    return run_names


def _plan(names: Sequence[str], scale_name: str, seeds: Sequence[int]) -> tuple[dict[str, Protocol], Scale, list[RunConfig]]:
    """Return the protocols by name, the scale with its seeds, and the distinct configurations of the protocols."""
    all_protocols = protocols()
    for name in names:
        if name not in (*all_protocols, *SEPARATE, ALL):
            raise ConfigurationError(unknown("protocol", name, [*all_protocols, *SEPARATE, ALL]))
    protocol_of = {name: protocol for name, protocol in all_protocols.items() if name in names or ALL in names}
    if scale_name not in SCALES:
        raise ConfigurationError(unknown("scale", scale_name, SCALES))
    scale = SCALES[scale_name]
    if seeds:
        check_seeds(seeds)
        scale = replace(scale, seeds=tuple(seeds))
    if protocol_of:
        check_data(scale, dict.fromkeys(extra for protocol in protocol_of.values() for extra in protocol.extras))
    configs = [configure(row, protocol, scale) for protocol in protocol_of.values() for row in protocol.rows]
    return protocol_of, scale, list({config.name: config for config in configs}.values())


def describe() -> str:
    """Return the protocols and the scales as text, one per line."""
    titles = {name: (protocol.title, protocol.source) for name, protocol in protocols().items()}
    titles |= {name: (experiment.TITLE, experiment.SOURCE) for name, experiment in SEPARATE.items()}
    lines = [f"{name:<18} {title} ({source})" for name, (title, source) in titles.items()]
    return "\n".join([*lines, "", *(f"--scale {name:<10} {scale.summary}" for name, scale in SCALES.items())])


def configure(row: Row, protocol: Protocol, scale: Scale) -> RunConfig:
    """Return the configuration of a row. Its name is that of the model and a hash, so that protocols share equal runs."""
    data = {f"data.{kind}": [name] for kind, name in scale.data.items()}
    depths = {"data.min_depth": protocol.depths[0], "data.max_depth": protocol.depths[1]}
    base = configuration.load(find_config(row.config if "/" in row.config else f"models/{row.config}"))
    width = {"model.hidden": scale.narrow[row.config]} if row.config in scale.narrow else {}
    changes = {**data, **depths, **scale.changes, **row.changes, **width}
    config = configuration.override(base, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    return replace(config, name=f"{row.config.replace('/', '-')}-{config.hash}")


def _write_results(folder: Path, protocol: Protocol, scale: Scale, command: str) -> str:
    """Write tables and figures of a protocol from its finished runs in the neighbouring folder `runs`. Returns the text."""
    results: dict[str, list[RunResult]] = {}
    for row in protocol.rows:
        folders = runs.finished(configure(row, protocol, scale), scale.seeds, folder.parent / "runs")
        results[row.label] = [measured(Run.open(run), protocol.extras, scale) for run in folders]
    lines = tables.compare(protocol, results)
    differences_on = {compared: tables.differences(compared, results) for compared in protocol.compared}
    text = tables.markdown(protocol, lines, differences_on, scale, command)
    atomic.write_text(folder / "table.md", text)
    atomic.write_text(folder / "table.csv", report.csv_table(lines))
    drawn = {label: group for label, group in results.items() if group and label in (protocol.drawn or results)}
    for figure in protocol.figures if drawn else ():
        plots.draw_groups(figure, drawn, folder / figure)
    return text
