"""The whole audit as plain data: what `--json` prints, the tables show and the figure draws."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from dgl_treestack.audit.corpus import Corpus, CorpusBuilder
from dgl_treestack.audit.examination import Parts, examine_all
from dgl_treestack.audit.leakage import DEFAULT, Fit, count_fits, measure
from dgl_treestack.audit.matches import count_duplicates, count_overlap
from dgl_treestack.audit.verdicts import contradicted, count_verdicts
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.processes import Jobs
from dgl_treestack.resources import find_data

TOGETHER = "all files together"


@dataclass(frozen=True)
class Options:
    """Options of an audit.

    verdicts, duplicates, leakage: whether to run these expensive parts. together: audit all files as one set. fit: see
    `leakage`. jobs: where equations are judged.
    """

    verdicts: bool = True
    duplicates: bool = True
    leakage: bool = True
    together: bool = False
    fit: Fit = field(default_factory=Fit)
    jobs: Jobs = 1


def audit(names: Sequence[str], options: Options = Options(), progress: bool = False) -> dict[str, Any]:
    """Audit files of equations.

    names: paths or `bundled:` names. progress: show progress bars.

    Returns `sets`: name -> `equations`, `verdicts`, `contradicted`, `duplicates`, `leakage` (the requested parts);
    `overlap`: a row per ordered pair of files; `sample`. See `verdicts`, `matches` and `leakage` for the keys below.

    Raises ConfigurationError for invalid options, DataError for a file that breaks its format or is empty.
    """
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    if len(set(names)) < len(names):
        raise ConfigurationError("A file is given twice; each would be a duplicate of itself. Name it once.")
    if options.fit.sample < 0:
        raise ConfigurationError(f"The sample is {options.fit.sample}; it is a number of equations, or 0 for all.")
    if options.fit.jobs < 1:
        raise ConfigurationError(f"The number of jobs is {options.fit.jobs}; at least one is needed.")
    corpus = load(names, options, progress)
    if options.together and len(names) > 1:
        rows_of_set = {TOGETHER: np.arange(len(corpus))}
    else:
        rows_of_set = {name: np.flatnonzero(corpus["file"] == file) for file, name in enumerate(corpus.files)}
    sets = {name: _audit_set(corpus, rows, name, options, progress) for name, rows in rows_of_set.items()}
    overlap = count_overlap(corpus) if options.duplicates else []
    return {"sets": sets, "overlap": overlap, "sample": options.fit.sample}


def _audit_set(corpus: Corpus, rows: np.ndarray, name: str, options: Options, progress: bool) -> dict[str, Any]:
    report: dict[str, Any] = {
        "equations": len(rows),
        "verdicts": count_verdicts(corpus, rows),
        "contradicted": contradicted(corpus, rows),
    }
    if options.duplicates:
        report["duplicates"] = count_duplicates(corpus, rows)
    if options.leakage:
        total = count_fits(corpus, rows, options.fit)
        with tqdm(total=total, desc=f"{name}: leakage", unit="fit", disable=not progress, leave=False) as bar:
            report["leakage"] = measure(corpus, rows, options.fit, bar.update)
    return report


def load(names: Sequence[str], options: Options = Options(), progress: bool = False) -> Corpus:
    """Read files, given by path or `bundled:` name, and examine their equations. Raises DataError."""
    builder = CorpusBuilder(names)
    for file, name in enumerate(names):
        before = len(builder.ids)
        examples = formats.read(find_data(name))
        fill(builder, file, tqdm(examples, desc=name, unit=" equations", disable=not progress, leave=False), options)
        if len(builder.ids) == before:
            raise DataError("There are no equations in the file.", name)
    return builder.corpus()


def fill(builder: CorpusBuilder, file: int, examples: Iterable[Example], options: Options = Options()) -> None:
    """Examine examples and add them to a builder. file: the position of their file."""
    parts = Parts(options.verdicts, options.duplicates)
    for example, examination in examine_all(examples, parts, options.jobs):
        builder.add(file, example, examination)


def leakage(examples: Iterable[Example], fit: Fit = DEFAULT) -> list[dict[str, Any]]:
    """Measure the leakage of examples in memory; returns the rows of `leakage.measure`."""
    builder = CorpusBuilder(["examples"])
    fill(builder, 0, examples, Options(verdicts=False, duplicates=False))
    return measure(builder.corpus(), np.arange(len(builder.ids)), fit)
