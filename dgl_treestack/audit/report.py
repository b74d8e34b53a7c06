"""The whole audit as plain data: what `--json` prints, the tables show and the figure draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from dgl_treestack.audit.corpus import OUTCOMES, UNKNOWN, Corpus, build
from dgl_treestack.audit.examination import EXPECTED, ROUNDED
from dgl_treestack.audit.leakage import DEFAULT, Fit, measure
from dgl_treestack.audit.matches import count_duplicates, count_overlap
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.processes import Jobs
from dgl_treestack.resources import find_data

TOGETHER = "all files together"


def audit(
    names: Sequence[str],
    *,
    verdicts: bool = True,
    duplicates: bool = True,
    leakage: bool = True,
    together: bool = False,
    fit: Fit = DEFAULT,
    jobs: Jobs = 1,
    progress: bool = False,
) -> dict[str, Any]:
    """Audit files of equations.

    names: paths or `bundled:` names. verdicts, duplicates, leakage: whether to run these expensive parts. together: audit all
    files as one set. fit: see `leakage`. jobs: where equations are judged. progress: show progress bars.

    Returns `sets`: name -> `equations`, `verdicts`, `contradicted`, `duplicates`, `leakage` (the requested parts);
    `overlap`: a row per ordered pair of files; `sample`. See `count_verdicts`, `matches` and `leakage` for the keys below.

    Raises ConfigurationError for invalid options, DataError for a file that breaks its format or is empty.
    """
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    if len(set(names)) < len(names):
        raise ConfigurationError("A file is given twice; each would be a duplicate of itself. Name it once.")
    if fit.sample < 0:
        raise ConfigurationError(f"The sample is {fit.sample}; it is a number of equations, or 0 for all.")
    if fit.jobs < 1:
        raise ConfigurationError(f"The number of jobs is {fit.jobs}; at least one is needed.")
    files = (
        (name, tqdm(formats.read(find_data(name)), desc=name, unit=" equations", disable=not progress, leave=False))
        for name in names
    )
    corpus = build(files, verdicts=verdicts, keys=duplicates, jobs=jobs)
    for file, name in enumerate(names):
        if file not in corpus["file"]:
            raise DataError("There are no equations in the file.", name)
    if together and len(names) > 1:
        rows_of_set = {TOGETHER: np.arange(len(corpus))}
    else:
        rows_of_set = {name: np.flatnonzero(corpus["file"] == file) for file, name in enumerate(corpus.files)}
    sets: dict[str, dict[str, Any]] = {}
    for name, rows in rows_of_set.items():
        counts = count_verdicts(corpus, rows)
        sets[name] = {"equations": len(rows), "verdicts": counts, "contradicted": contradicted(corpus, rows)}
        if duplicates:
            sets[name]["duplicates"] = count_duplicates(corpus, rows)
        if leakage:
            sets[name]["leakage"] = measure(corpus, rows, fit, f"{name}: leakage" if progress else "")
    return {"sets": sets, "overlap": count_overlap(corpus) if duplicates else [], "sample": fit.sample}


def count_verdicts(corpus: Corpus, rows: np.ndarray) -> list[dict[str, Any]]:
    """Count equations and verdicts: a row per depth and label, by depth, correct equations first.

    rows: positions of the equations to count. Those that are equal when rounded are also counted as refuted.
    """
    columns = [corpus[name][rows].astype(np.int64) for name in ("depth", "label", "verdict")]
    cells, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    table: dict[tuple[int, int], dict[str, Any]] = {}
    for (depth, label, verdict), count in zip(cells.T.tolist(), counts.tolist(), strict=True):
        empty = {"depth": depth, "label": None if label == UNKNOWN else label, "equations": 0, **dict.fromkeys(OUTCOMES, 0)}
        row = table.setdefault((depth, -label), empty)
        row["equations"] += count
        if verdict != UNKNOWN:
            row[OUTCOMES[verdict]] += count
            row["refuted"] += count * (OUTCOMES[verdict] == ROUNDED)
    return [table[key] for key in sorted(table)]


def contradicted(corpus: Corpus, rows: np.ndarray) -> list[str]:
    """Return the ids of equations that are labelled correct and refuted, or labelled incorrect and hold."""
    label, verdict = corpus["label"][rows], corpus["verdict"][rows]
    wrong = np.zeros(len(rows), bool)
    for value, expected in EXPECTED.items():
        wrong |= (label == 1 - value) & (verdict == OUTCOMES.index(expected))
    return corpus.names(rows[wrong], rows)
