"""The whole audit as plain data: what `--json` prints, the tables show and the figure draws."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from dgl_treestack.audit.corpus import Corpus, CorpusBuilder
from dgl_treestack.audit.examination import Wanted, examine_all
from dgl_treestack.audit.leakage import DEFAULT, Fit, count_fits, measure
from dgl_treestack.audit.matches import count_duplicates, count_overlap
from dgl_treestack.audit.verdicts import contradicted, count_verdicts
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.resources import find_data

TOGETHER = "all files together"


@dataclass(frozen=True)
class Options:
    """What to do. verdicts, duplicates, leakage: the costly parts. together: all files as one set. fit: see `leakage`."""

    verdicts: bool = True
    duplicates: bool = True
    leakage: bool = True
    together: bool = False
    fit: Fit = field(default_factory=Fit)


def audit(names: Sequence[str], options: Options = Options(), progress: bool = False) -> dict[str, Any]:
    """Audit files of equations, given by path or `bundled:` name.

    Returns `sets`: name -> `equations`, `verdicts`, `contradicted`, `duplicates`, `leakage` (the parts that were asked for);
    `overlap`: a row per ordered pair of files; `sample`. See `verdicts`, `matches` and `leakage` for the keys below.

    Raises ConfigurationError for options that make no sense, DataError for a file that breaks its format or is empty.
    """
    _check(names, options)
    corpus = load(names, options, progress)
    sets = {name: _audit_set(corpus, rows, name, options, progress) for name, rows in _sets(corpus, options.together)}
    overlap = count_overlap(corpus) if options.duplicates else []
    return {"sets": sets, "overlap": overlap, "sample": options.fit.sample}


def _check(names: Sequence[str], options: Options) -> None:
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    if len(set(names)) < len(names):
        raise ConfigurationError("A file is given twice; each would be a duplicate of itself. Name it once.")
    if options.fit.sample < 0:
        raise ConfigurationError(f"The sample is {options.fit.sample}; it is a number of equations, or 0 for all.")
    if options.fit.jobs < 1:
        raise ConfigurationError(f"The number of jobs is {options.fit.jobs}; at least one is needed.")


def load(names: Sequence[str], options: Options = Options(), progress: bool = False) -> Corpus:
    """Read and examine files."""
    builder = CorpusBuilder(names)
    for file, name in enumerate(names):
        before = len(builder.ids)
        fill(builder, file, _shown(formats.read(find_data(name)), name, progress), options)
        if len(builder.ids) == before:
            raise DataError("There are no equations in the file.", name)
    return builder.corpus()


def fill(builder: CorpusBuilder, file: int, examples: Iterable[Example], options: Options = Options()) -> None:
    """Examine examples and add them as those of one file."""
    wanted = Wanted(options.verdicts, options.duplicates)
    for example, found in examine_all(examples, wanted, options.fit.jobs):
        builder.add(file, example, found)


def leakage(examples: Iterable[Example], fit: Fit = DEFAULT) -> list[dict[str, Any]]:
    """The leakage of examples in memory: the rows of `leakage.measure`."""
    builder = CorpusBuilder(["examples"])
    fill(builder, 0, examples, Options(verdicts=False, duplicates=False))
    return measure(builder.corpus(), np.arange(len(builder.ids)), fit)


def _shown(examples: Iterator[Example], name: str, progress: bool) -> Iterable[Example]:
    return tqdm(examples, desc=name, unit=" equations", disable=not progress, leave=False)


def _sets(corpus: Corpus, together: bool) -> list[tuple[str, np.ndarray]]:
    if together and len(corpus.files) > 1:
        return [(TOGETHER, np.arange(len(corpus)))]
    return [(name, np.flatnonzero(corpus.rows_of(file))) for file, name in enumerate(corpus.files)]


def _audit_set(corpus: Corpus, rows: np.ndarray, name: str, options: Options, progress: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "equations": len(rows),
        "verdicts": count_verdicts(corpus, rows),
        "contradicted": contradicted(corpus, rows),
    }
    if options.duplicates:
        found["duplicates"] = count_duplicates(corpus, rows)
    if options.leakage:
        total = count_fits(corpus, rows, options.fit)
        with tqdm(total=total, desc=f"{name}: leakage", unit="fit", disable=not progress, leave=False) as bar:
            step: Callable[[int], Any] = bar.update
            found["leakage"] = measure(corpus, rows, options.fit, step)
    return found
