"""Duplicates and near-duplicates within a file and between files."""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from dgl_treestack.audit.corpus import Corpus
from dgl_treestack.audit.entries import KINDS, Entries, mix

EXAMPLES = 5
MOST_PAIRED = 4  # with more files, the overlap of a file is that with all other files together
OTHERS = "the other files"
_SURPLUS = {"same text": "text", "same equation": "key"}


class Matches(NamedTuple):
    """Masks over the corpus, (n,) bool: equations that are like another one, and like another one with the opposite label."""

    alike: np.ndarray
    opposite: np.ndarray


def find(corpus: Corpus, kind: str, of: np.ndarray, among: np.ndarray) -> Matches:
    """Find the equations of a set that are like another equation of a second (or the same) set.

    kind: a name of `KINDS`. of, among: the sets, as masks (n,) bool.
    """
    matches = Matches(np.zeros(len(corpus), bool), np.zeros(len(corpus), bool))
    label = corpus["label"]
    for entries in KINDS[kind](corpus, np.flatnonzero(of | among)):
        row, inside = entries.row, of[entries.row]
        matches.alike[row[inside & (_count_alike(entries, among[row]) > 0)]] = True
        for value in (0, 1):
            contrary = _count_alike(entries, (among & (label == 1 - value))[row])
            matches.opposite[row[inside & (label[row] == value) & (contrary > 0)]] = True
    return matches


def _count_alike(entries: Entries, among: np.ndarray) -> np.ndarray:
    """Count for each entry the entries of the mask `among` with the same key that differ from it in every column of `apart`.

    By inclusion and exclusion, in linear time: no pair of entries is formed.
    """
    total = np.zeros(len(among), np.int64)
    for size in range(len(entries.apart) + 1):
        for equal_columns in combinations(entries.apart, size):
            group = np.unique(mix(entries.key, *equal_columns), return_inverse=True)[1]
            total += (-1) ** size * np.bincount(group[among], minlength=len(among))[group]
    return total


def count_duplicates(corpus: Corpus, rows: np.ndarray) -> dict[str, dict[str, Any]]:
    """Count, for each kind of `KINDS`, the `equations` of a set that are like another one of the set.

    rows: positions of the set. Also returns their share in per cent, the number of those like one with the `opposite` label,
    ids of a few of these, and, for exact duplicates, the `surplus` that could be dropped.
    """
    inside = np.zeros(len(corpus), bool)
    inside[rows] = True
    duplicates = {kind: _count_matches(corpus, kind, inside, inside) for kind in KINDS}
    for kind, column in _SURPLUS.items():
        duplicates[kind]["surplus"] = len(rows) - len(np.unique(corpus[column][rows]))
    return duplicates


def count_overlap(corpus: Corpus) -> list[dict[str, Any]]:
    """Count, for each ordered pair of files and kind of `KINDS`, the equations `of` one that are like one `in` the other.

    With more than `MOST_PAIRED` files, all the other files count as one, so that the time is linear in their number.
    """
    rows = []
    masks = {name: corpus["file"] == file for file, name in enumerate(corpus.files)}
    for name, mask in masks.items():
        targets = {target: among for target, among in masks.items() if target != name}
        if len(masks) > MOST_PAIRED:
            targets = {OTHERS: ~mask}
        for target, among in targets.items():
            alike = {kind: _count_matches(corpus, kind, mask, among) for kind in KINDS}
            rows.append({"of": name, "in": target, "equations": int(mask.sum()), "alike": alike})
    return rows


def _count_matches(corpus: Corpus, kind: str, of: np.ndarray, among: np.ndarray) -> dict[str, Any]:
    matches = find(corpus, kind, of, among)
    number = int(matches.alike.sum())
    return {
        "equations": number,
        "share": round(100 * number / int(of.sum()), 2),
        "opposite": int(matches.opposite.sum()),
        "examples of opposite": corpus.names(np.flatnonzero(matches.opposite)[:EXAMPLES], np.flatnonzero(of)),
    }
