"""An audit as text for people."""

from collections.abc import Iterator, Sequence
from typing import Any

from dgl_treestack.audit.baselines import BASELINES
from dgl_treestack.audit.corpus import VERDICTS
from dgl_treestack.audit.entries import KINDS
from dgl_treestack.audit.examination import SIDE_DEPTH
from dgl_treestack.audit.leakage import PARTS
from dgl_treestack.audit.verdicts import LABELS

SHOWN = 10  # ids of contradicted labels
SAME = ("same text", "same equation")
NOTE = (
    "same equation: up to the order of terms and sides, names of variables, spelling of constants; shared side: a whole side,\n"
    f"of depth {SIDE_DEPTH} or more; the last two rows leave an equation's own pair out."
)


def describe(report: dict[str, Any]) -> str:
    """The whole report: set after set, then the overlap between files."""
    parts = [_describe_set(name, found, report["sample"]) for name, found in report["sets"].items()]
    if report["overlap"]:
        parts.append(_overlap(report["overlap"]))
    return "\n\n\n".join(parts)


def align(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of cells as lines; the first `left` columns start at the left, the others end at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _describe_set(name: str, found: dict[str, Any], sample: int) -> str:
    title = f"{name}: {found['equations']:,} equations"
    parts = [title + "\n" + "=" * len(title), "\n".join(_verdicts(found))]
    if "duplicates" in found:
        parts.append(_duplicates(found["duplicates"]))
    if "leakage" in found:
        parts.append("\n".join(_leakage(found["leakage"], sample)))
    return "\n\n".join(parts)


def _verdicts(found: dict[str, Any]) -> Iterator[str]:
    rows = found["verdicts"]
    judged = any(row[verdict] for row in rows for verdict in VERDICTS)
    columns = ["equations", *(VERDICTS if judged else ())]
    table = [["depth", "label", *columns]]
    table += [[str(row["depth"]), LABELS[row["label"]], *(_number(row[c]) for c in columns)] for row in rows]
    table.append(["all", "", *(_number(sum(row[c] for row in rows)) for c in columns)])
    yield "Verdicts by depth and label" if judged else "Equations by depth and label (not judged)"
    yield align(table, left=2)
    if wrong := found["contradicted"]:
        what = "1 label is" if len(wrong) == 1 else f"{len(wrong):,} labels are"
        yield f"{what} contradicted: {', '.join(wrong[:SHOWN])}{', ...' if len(wrong) > SHOWN else ''}"
    elif judged:
        yield "No label is contradicted."


def _duplicates(found: dict[str, dict[str, Any]]) -> str:
    table = [["", "equations", "share", "opposite label", "surplus"]]
    for kind, row in found.items():
        surplus = _number(row["surplus"]) if "surplus" in row else ""
        table.append([kind, _number(row["equations"]), f"{row['share']:.1f} %", _number(row["opposite"]), surplus])
    lines = ["Equations that have another like them", align(table)]
    for kind in SAME:
        if found[kind]["opposite"]:
            lines.append(f"LABEL CONFLICT, {kind}: {', '.join(found[kind]['examples of opposite'])}")
    lines.append(NOTE)
    return "\n".join(lines)


def _leakage(rows: list[dict[str, Any]], sample: int) -> Iterator[str]:
    if not rows:
        yield "Leakage: there are no labels."
        return
    measured = [row for row in rows if "skipped" not in row]
    yield f"Leakage: per cent right in {PARTS}-fold cross-validation by pair, fitted per depth group, best setting"
    if measured:
        yield align([_heads(measured[0]), *(line for row in measured for line in _scores(row))])
        yield "* more than two standard errors above the share of the commoner label"
    for row in measured:
        if row["used"] < row["equations"]:
            counts = f"{row['used']:,} of {row['equations']:,} equations"
            yield f"depth {row['depths']}: a sample of {counts} (--sample {sample}; 0 for all)"
    for row in rows:
        if "skipped" in row:
            yield f"depth {row['depths']}: not measured, {row['skipped']}"


def _heads(row: dict[str, Any]) -> list[str]:
    return ["depth", "equations", "majority", *(BASELINES[name].title for name in row["baselines"])]


def _scores(row: dict[str, Any]) -> list[list[str]]:
    """Two lines: the scores, and below them the settings they were reached with."""
    scores = row["baselines"].values()
    cells = [f"{s['accuracy']:.1f} ± {s['standard_error']:.1f}{'*' if s['above'] else ' '}" for s in scores]
    return [
        [row["depths"], _number(row["used"]), f"{row['majority']:.1f}", *cells],
        ["", "", "", *(f"{s['setting']} " for s in scores)],
    ]


def _overlap(rows: list[dict[str, Any]]) -> str:
    short = _short_names([name for row in rows for name in (row["of"], row["in"])])
    table = [["of", "in", *KINDS, "so, opposite label"]]
    for row in rows:
        cells = [f"{_number(found['equations'])}  {found['share']:4.1f} %" for found in row["alike"].values()]
        table.append([short[row["of"]], short[row["in"]], *cells, _number(row["alike"]["one label apart"]["opposite"])])
    lines = ["Equations of one file that have one like them in another", align([_edits_first(row) for row in table], left=2)]
    for row in rows:
        for kind in SAME:
            if conflicts := row["alike"][kind]["opposite"]:
                lines.append(f"LABEL CONFLICT, {kind}: {conflicts:,} of {row['of']} have the opposite label in {row['in']}")
    return "\n".join(lines)


def _edits_first(row: list[str]) -> list[str]:
    """The opposite labels, the last cell, go beside the edits that they are counted among."""
    return [*row[:5], row[6], row[5]]


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Names without their folders, where that leaves them different."""
    known = list(dict.fromkeys(names))
    short = [name.replace("\\", "/").rsplit("/", 1)[-1] for name in known]
    return dict(zip(known, short if len(set(short)) == len(short) else known, strict=True))


def _number(value: int) -> str:
    return f"{value:,}"
