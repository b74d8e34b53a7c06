"""Verdicts against labels, per depth."""

from typing import Any

import numpy as np

from dgl_treestack.audit.corpus import OUTCOMES, UNKNOWN, Corpus
from dgl_treestack.audit.examination import ROUNDED

LABELS = {1: "correct", 0: "incorrect", None: "unknown"}
EXPECTED = {1: "holds", 0: "refuted"}  # label -> verdict that agrees with it


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
