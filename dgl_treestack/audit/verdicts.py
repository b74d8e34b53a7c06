"""Verdicts against labels, per depth."""

from typing import Any

import numpy as np

from dgl_treestack.audit.corpus import UNKNOWN, VERDICTS, Corpus

LABELS = {1: "correct", 0: "incorrect", None: "unknown"}
EXPECTED = {1: "holds", 0: "refuted"}


def count_verdicts(corpus: Corpus, rows: np.ndarray) -> list[dict[str, Any]]:
    """A row per depth and label, the correct ones first: how many equations, and how many of each verdict.

    rows: positions of the equations that count.
    """
    columns = [corpus[name][rows].astype(np.int64) for name in ("depth", "label", "verdict")]
    cells, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    table: dict[tuple[int, int], dict[str, Any]] = {}
    for (depth, label, verdict), count in zip(cells.T.tolist(), counts.tolist(), strict=True):
        start = {"depth": depth, "label": None if label == UNKNOWN else label, "equations": 0, **dict.fromkeys(VERDICTS, 0)}
        row = table.setdefault((depth, -label), start)
        row["equations"] += count
        if verdict != UNKNOWN:
            row[VERDICTS[verdict]] += count
    return [table[place] for place in sorted(table)]


def contradicted(corpus: Corpus, rows: np.ndarray) -> list[str]:
    """The ids of equations that are labelled correct and refuted, or labelled incorrect and hold."""
    label, verdict = corpus["label"][rows], corpus["verdict"][rows]
    wrong = np.zeros(len(rows), bool)
    for value, expected in EXPECTED.items():
        wrong |= (label == 1 - value) & (verdict == VERDICTS.index(expected))
    return corpus.names(rows[wrong], rows)


def contradicts(label: int | None, verdict: str) -> bool:
    """Whether a verdict says the opposite of a label; conditional and undefined say nothing."""
    return label is not None and verdict == EXPECTED[1 - label]
