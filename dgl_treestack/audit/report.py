"""The whole audit: as plain data, which `--json` prints and the figure draws, and as text for people."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from dgl_treestack.audit.corpus import EXPECTED, LABELS, OUTCOMES, ROUNDED, SIDE_DEPTH, UNKNOWN, VERDICTS, build
from dgl_treestack.audit.leakage import BASELINES, DEFAULT, PARTS, Fit, measure
from dgl_treestack.audit.matches import KINDS, count_duplicates, count_overlap
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.plain_data import align
from dgl_treestack.processes import Jobs
from dgl_treestack.resources import find_data

TOGETHER = "all files together"
SHOWN = 10  # ids of contradicted labels
SAME = ("same text", "same equation")
NOTE = (
    "same equation: up to the order of terms and sides, names of variables, spelling of constants; shared side: a whole side,\n"
    f"of depth {SIDE_DEPTH} or more; the last two rows leave an equation's own pair out."
)


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

    Returns `sets`: name -> `equations`, `verdicts` (numbers of equations and verdicts: a row per depth and label, by depth,
    correct equations first; those that are equal when rounded also count as refuted), `contradicted` (ids of equations that are
    labelled correct and refuted, or labelled incorrect and hold), `duplicates`, `leakage` (the requested parts);
    `overlap`: a row per ordered pair of files; `sample`. See `matches` and `leakage` for the keys below.

    Raises ConfigurationError for invalid options, DataError for a file that breaks its format or is empty.
    """
    rules = {
        "Name at least one file, such as bundled:quickstart/train.": len(names) > 0,
        "A file is given twice; each would be a duplicate of itself. Name it once.": len({*names}) == len(names),
        f"The sample is {fit.sample}; it is a number of equations, or 0 for all.": fit.sample >= 0,
        f"The number of jobs is {fit.jobs}; at least one is needed.": fit.jobs >= 1,
    }
    for rule, is_kept in rules.items():
        if not is_kept:
            raise ConfigurationError(rule)
    files = (
        (name, tqdm(formats.read(find_data(name)), desc=name, unit=" equations", disable=not progress, leave=False))
        for name in names
    )
    corpus = build(files, verdicts=verdicts, keys=duplicates, jobs=jobs)
    rows_of_set = {name: np.flatnonzero(corpus["file"] == file) for file, name in enumerate(corpus.files)}
    for name, rows in rows_of_set.items():
        if not len(rows):
            raise DataError("There are no equations in the file.", name)
    if together and len(names) > 1:
        rows_of_set = {TOGETHER: np.arange(len(corpus))}
    sets: dict[str, dict[str, Any]] = {}
    for name, rows in rows_of_set.items():
        label, verdict, wrong = corpus["label"][rows], corpus["verdict"][rows], np.zeros(len(rows), bool)
        for value, expected in EXPECTED.items():
            wrong |= (label == 1 - value) & (verdict == OUTCOMES.index(expected))
        columns = np.stack([corpus["depth"][rows].astype(np.int64), label, verdict])
        cells, counts = np.unique(columns, axis=1, return_counts=True)
        table: dict[tuple[int, int], dict[str, Any]] = {}
        for (depth, number, outcome), count in zip(cells.T.tolist(), counts.tolist(), strict=True):
            empty = {"depth": depth, "label": None if number == UNKNOWN else number, "equations": 0}
            row = table.setdefault((depth, -number), {**empty, **dict.fromkeys(OUTCOMES, 0)})
            row["equations"] += count
            if outcome != UNKNOWN:
                row[OUTCOMES[outcome]] += count
                row["refuted"] += count * (OUTCOMES[outcome] == ROUNDED)
        sets[name] = {"equations": len(rows), "verdicts": [table[key] for key in sorted(table)]}
        sets[name]["contradicted"] = corpus.names(rows[wrong], rows)
        if duplicates:
            sets[name]["duplicates"] = count_duplicates(corpus, rows)
        if leakage:
            sets[name]["leakage"] = measure(corpus, rows, fit, f"{name}: leakage" if progress else "")
    return {"sets": sets, "overlap": count_overlap(corpus) if duplicates else [], "sample": fit.sample}


def describe(report: dict[str, Any]) -> str:
    """Return the whole report of `report.audit` as text: set after set, then the overlap between files."""
    sections = []
    for name, audited in report["sets"].items():
        title = f"{name}: {audited['equations']:,} equations"
        parts = [f"{title}\n{'=' * len(title)}", _verdicts(audited)]
        if "duplicates" in audited:
            table, conflicts = [["", "equations", "share", "opposite label", "surplus"]], list[str]()
            for kind, row in audited["duplicates"].items():
                surplus = f"{row['surplus']:,}" if "surplus" in row else ""
                table.append([kind, f"{row['equations']:,}", f"{row['share']:.1f} %", f"{row['opposite']:,}", surplus])
                if kind in SAME and row["opposite"]:
                    conflicts.append(f"LABEL CONFLICT, {kind}: {', '.join(row['examples of opposite'])}")
            parts.append("\n".join(["Equations with a match in the same set", align(table), *conflicts, NOTE]))
        if "leakage" in audited:
            parts.append(_leakage(audited["leakage"], report["sample"]))
        sections.append("\n\n".join(parts))
    if rows := report["overlap"]:  # files are named without folders if these names differ
        names = list(dict.fromkeys(name for row in rows for name in (row["of"], row["in"])))
        short = [name.replace("\\", "/").rsplit("/", 1)[-1] for name in names]
        titles = dict(zip(names, short if len(set(short)) == len(short) else names, strict=True))
        *kinds, last = KINDS
        table, conflicts = [["of", "in", *kinds, "one label apart, opposite label", last]], []
        for row in rows:
            alike = row["alike"]
            cells = {kind: f"{alike[kind]['equations']:,}  {alike[kind]['share']:4.1f} %" for kind in alike}
            opposite = f"{alike['one label apart']['opposite']:,}"
            table.append([titles[row["of"]], titles[row["in"]], *(cells[kind] for kind in kinds), opposite, cells[last]])
            for kind in SAME:
                if count := alike[kind]["opposite"]:
                    conflicts.append(f"LABEL CONFLICT, {kind}: {count:,} of {row['of']} have the opposite label in {row['in']}")
        sections.append("\n".join(["Equations with a match in another file", align(table, "<<>"), *conflicts]))
    return "\n\n\n".join(sections)


def _verdicts(audited: dict[str, Any]) -> str:
    rows, wrong = audited["verdicts"], audited["contradicted"]
    judged = any(row[verdict] for row in rows for verdict in VERDICTS)
    columns = ["equations", *(VERDICTS if judged else ())]
    table = [["depth", "label", *columns]]
    table += [[str(row["depth"]), LABELS[row["label"]], *(f"{row[name]:,}" for name in columns)] for row in rows]
    table.append(["all", "", *(f"{sum(row[name] for row in rows):,}" for name in columns)])
    title = "Verdicts by depth and label" if judged else "Equations by depth and label (not judged)"
    lines = [title, align(table, "<<>")]
    if judged and not wrong:
        lines.append("No label is contradicted.")
    rounded = sum(row[ROUNDED] for row in rows if row["label"] == 1)
    others = sum(row[name] for row in rows for name in VERDICTS[2:] if row["label"] is not None)
    for count, statement in (
        (len(wrong), f"contradicted: {', '.join(wrong[:SHOWN])}{', ...' if len(wrong) > SHOWN else ''}"),
        (rounded, "right when rounded: the sides differ, by half of the last decimal that is written at most."),
        (others, "neither confirmed nor contradicted: the verdict is conditional, undefined or undecided."),
    ):
        if count:
            lines.append(f"{'1 label is' if count == 1 else f'{count:,} labels are'} {statement}")
    return "\n".join(lines)


def _leakage(rows: list[dict[str, Any]], sample: int) -> str:
    """Two lines per depth group: the scores of the baselines, and their settings."""
    if not rows:
        return "Leakage: there are no labels."
    measured = [row for row in rows if "skipped" not in row]
    lines = [f"Leakage: per cent right in {PARTS}-fold cross-validation by pair, fitted per depth group, best setting"]
    if measured:
        table = [["depth", "equations", "majority", *(BASELINES[name].title for name in measured[0]["baselines"])]]
        for row in measured:
            scores = row["baselines"].values()
            cells = [f"{s['accuracy']:.1f} ± {s['standard_error']:.1f}{'*' if s['above'] else ' '}" for s in scores]
            table.append([row["depths"], f"{row['used']:,}", f"{row['majority']:.1f}", *cells])
            table.append(["", "", "", *(f"{s['setting']} " for s in scores)])
        lines += [align(table), "* more than two standard errors above the share of the commoner label"]
    for row in measured:
        if row["used"] < row["equations"]:
            counts = f"{row['used']:,} of {row['equations']:,} equations"
            lines.append(f"depth {row['depths']}: a sample of {counts} (--sample {sample}; 0 for all)")
    lines += [f"depth {row['depths']}: not measured, {row['skipped']}" for row in rows if "skipped" in row]
    return "\n".join(lines)
