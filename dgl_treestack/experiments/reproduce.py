"""`treestack reproduce`: a protocol's runs, as far as they are missing, its table and its figure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dgl_treestack import atomic, plots
from dgl_treestack.algorithmic import tables as algorithmic
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.experiments import tables
from dgl_treestack.experiments._extras import measured
from dgl_treestack.experiments._protocol import Protocol, Row
from dgl_treestack.experiments.protocols import protocols
from dgl_treestack.experiments.runs import finished, train_missing
from dgl_treestack.experiments.runs import missing as runs_missing
from dgl_treestack.experiments.scales import SCALES, Scale, check_data
from dgl_treestack.resources import find_config
from dgl_treestack.results.run_result import RunResult
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.runs.run import Run
from dgl_treestack.training.start import check_seeds

ALL = "all"
# Experiments that are no tables of runs on equations: each defines TITLE, SOURCE, `missing` and `reproduce`.
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
    """Train what is missing for some protocols, then write `<protocol>/table.md`, `.csv` and figures as `.svg` and `.png`.

    train: or else only from runs that are done. show: gets the text of every table. What is no protocol on equations
    (SEPARATE) takes the first seed. Returns the exit code. Raises ConfigurationError for an unknown protocol or scale,
    DataError when data is missing.
    """
    chosen, scale, configs = _planned(names, scale_name, seeds)
    code = 0
    if train:
        code = train_missing(configs, scale.seeds, output_dir / "runs", output_dir / "configs", jobs=jobs)
    if code in (130, 143):
        return code
    command = f"--scale {scale_name}" + (f" --seeds {' '.join(map(str, seeds))}" if seeds else "")
    for name, protocol in chosen.items():
        show(_finish(output_dir / name, protocol, scale, f"treestack reproduce {name} {command}"))
    for name in _separate(names):
        text = SEPARATE[name].reproduce(output_dir / name, scale_name, scale.seeds[0], jobs=jobs, training=train)
        if text:
            show(text)
    return code


def missing(names: Sequence[str], scale_name: str, output_dir: Path, *, seeds: Sequence[int] = ()) -> list[str]:
    """The names of the runs that some protocols lack. Raises what `reproduce` does."""
    _, scale, configs = _planned(names, scale_name, seeds)
    runs = runs_missing(configs, scale.seeds, output_dir / "runs")
    return runs + [
        run for name in _separate(names) for run in SEPARATE[name].missing(output_dir / name, scale_name, scale.seeds[0])
    ]


def _separate(names: Sequence[str]) -> list[str]:
    return [name for name in SEPARATE if name in names or ALL in names]


def _planned(names: Sequence[str], scale_name: str, seeds: Sequence[int]) -> tuple[dict[str, Protocol], Scale, list[RunConfig]]:
    """The protocols, the scale, and every configuration once."""
    chosen = _chosen([name for name in names if name not in SEPARATE])
    scale = _scale(scale_name, seeds, list(chosen.values()))
    configs = [configure(row, protocol, scale) for protocol in chosen.values() for row in protocol.rows]
    return chosen, scale, list({config.name: config for config in configs}.values())


def describe() -> str:
    """The protocols and the scales, a line each."""
    known = {name: (protocol.title, protocol.source) for name, protocol in protocols().items()}
    known |= {name: (module.TITLE, module.SOURCE) for name, module in SEPARATE.items()}
    lines = [f"{name:<18} {title} ({source})" for name, (title, source) in known.items()]
    return "\n".join([*lines, "", *(f"--scale {name:<10} {scale.summary}" for name, scale in SCALES.items())])


def _chosen(names: Sequence[str]) -> dict[str, Protocol]:
    known = protocols()
    for name in names:
        if name not in (*known, ALL):
            raise ConfigurationError(unknown("protocol", name, [*known, *SEPARATE, ALL]))
    return {name: protocol for name, protocol in known.items() if name in names or ALL in names}


def _scale(name: str, seeds: Sequence[int], chosen: Sequence[Protocol]) -> Scale:
    if name not in SCALES:
        raise ConfigurationError(unknown("scale", name, SCALES))
    if seeds:
        check_seeds(seeds)
    if chosen:
        check_data(SCALES[name], dict.fromkeys(extra for one in chosen for extra in one.extras))
    return replace(SCALES[name], seeds=tuple(seeds)) if seeds else SCALES[name]


def configure(row: Row, protocol: Protocol, scale: Scale) -> RunConfig:
    """The configuration of a row, named after its model and its hash, so that protocols share what they can."""
    data = {f"data.{kind}": [name] for kind, name in scale.data.items()}
    depths = {"data.min_depth": protocol.depths[0], "data.max_depth": protocol.depths[1]}
    base = configuration.load(find_config(f"models/{row.config}"))
    width = {"model.hidden": scale.narrow[row.config]} if row.config in scale.narrow else {}
    changes = {**data, **depths, **scale.changes, **width, **row.changes}
    config = configuration.override(base, [f"{key}={json.dumps(value)}" for key, value in changes.items()])
    return replace(config, name=f"{row.config}-{config.hash}")


def _finish(folder: Path, protocol: Protocol, scale: Scale, command: str) -> str:
    """Write tables and figures of a protocol, from the runs that are done, which lie beside its folder. Returns the text."""
    found: dict[str, list[RunResult]] = {}
    for row in protocol.rows:
        done = finished(configure(row, protocol, scale), scale.seeds, folder.parent / "runs")
        found[row.label] = [measured(Run.open(run), protocol.extras, scale) for run in done]
    lines = tables.compare(protocol, found)
    others = {compared: tables.differences(compared, found) for compared in protocol.compared}
    text = tables.markdown(protocol, lines, others, scale, command)
    atomic.write_text(folder / "table.md", text)
    atomic.write_text(folder / "table.csv", tables.csv(lines))
    drawn = {label: runs for label, runs in found.items() if runs and label in (protocol.drawn or found)}
    for figure in protocol.figures if drawn else ():
        plots.draw_groups(figure, drawn, folder / figure)
    return text
