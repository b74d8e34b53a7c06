"""An audit as text for people."""

from typing import Any

from dgl_treestack.audit.baselines import BASELINES
from dgl_treestack.audit.corpus import VERDICTS
from dgl_treestack.audit.examination import LABELS, ROUNDED, SIDE_DEPTH
from dgl_treestack.audit.leakage import PARTS
from dgl_treestack.audit.matches import KINDS
from dgl_treestack.plain_data import align

SHOWN = 10  # ids of contradicted labels
SAME = ("same text", "same equation")
NOTE = (
    "same equation: up to the order of terms and sides, names of variables, spelling of constants; shared side: a whole side,\n"
    f"of depth {SIDE_DEPTH} or more; the last two rows leave an equation's own pair out."
)


def describe(report: dict[str, Any]) -> str:
    """Return the whole report of `report.audit` as text: set after set, then the overlap between files."""
    sections = []
    for name, audited in report["sets"].items():
        title = f"{name}: {audited['equations']:,} equations"
        parts = [f"{title}\n{'=' * len(title)}", _verdicts(audited)]
        if "duplicates" in audited:
            parts.append(_duplicates(audited["duplicates"]))
        if "leakage" in audited:
            parts.append(_leakage(audited["leakage"], report["sample"]))
        sections.append("\n\n".join(parts))
    if report["overlap"]:
        sections.append(_overlap(report["overlap"]))
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


def _duplicates(duplicates: dict[str, dict[str, Any]]) -> str:
    table = [["", "equations", "share", "opposite label", "surplus"]]
    for kind, row in duplicates.items():
        surplus = f"{row['surplus']:,}" if "surplus" in row else ""
        table.append([kind, f"{row['equations']:,}", f"{row['share']:.1f} %", f"{row['opposite']:,}", surplus])
    lines = ["Equations with a match in the same set", align(table)]
    for kind in SAME:
        if duplicates[kind]["opposite"]:
            lines.append(f"LABEL CONFLICT, {kind}: {', '.join(duplicates[kind]['examples of opposite'])}")
    return "\n".join([*lines, NOTE])


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


def _overlap(rows: list[dict[str, Any]]) -> str:
    """One line per pair of files, named without folders if these names differ."""
    names = list(dict.fromkeys(name for row in rows for name in (row["of"], row["in"])))
    short = [name.replace("\\", "/").rsplit("/", 1)[-1] for name in names]
    titles = dict(zip(names, short if len(set(short)) == len(short) else names, strict=True))
    *kinds, last = KINDS
    table = [["of", "in", *kinds, "one label apart, opposite label", last]]
    lines = ["Equations with a match in another file"]
    conflicts = []
    for row in rows:
        alike = row["alike"]
        cells = {kind: f"{alike[kind]['equations']:,}  {alike[kind]['share']:4.1f} %" for kind in alike}
        opposite = f"{alike['one label apart']['opposite']:,}"
        table.append([titles[row["of"]], titles[row["in"]], *(cells[kind] for kind in kinds), opposite, cells[last]])
        for kind in SAME:
            if count := alike[kind]["opposite"]:
                conflicts.append(f"LABEL CONFLICT, {kind}: {count:,} of {row['of']} have the opposite label in {row['in']}")
    return "\n".join([*lines, align(table, "<<>"), *conflicts])
