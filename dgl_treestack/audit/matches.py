"""Duplicates and near-duplicates: within files, and of one file in another."""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from dgl_treestack.audit.corpus import UNKNOWN, Corpus
from dgl_treestack.audit.entries import KINDS, Entries, mix

EXAMPLES = 5
MOST_PAIRED = 4  # files; beyond, overlap is with all the others
OTHERS = "the other files"
_SURPLUS = {"same text": "text", "same equation": "key"}


class Matches(NamedTuple):
    """found, opposite: (n,) bool over the corpus: has an equation like it, has one with the opposite label."""

    found: np.ndarray
    opposite: np.ndarray


def find(corpus: Corpus, kind: str, of: np.ndarray, among: np.ndarray) -> Matches:
    """Which equations `of` one set are like another `among` a second (or the same) set, in the way `kind` of `KINDS`.

    of, among: (n,) bool.
    """
    found, opposite = np.zeros(len(corpus), bool), np.zeros(len(corpus), bool)
    label = corpus["label"]
    for entries in KINDS[kind](corpus, np.flatnonzero(of | among)):
        inside = of[entries.row]
        found[entries.row[inside & (_count_alike(entries, among[entries.row]) > 0)]] = True
        for value in (0, 1):
            others = _count_alike(entries, (among & (label == 1 - value))[entries.row])
            opposite[entries.row[inside & (label[entries.row] == value) & (others > 0)]] = True
    return Matches(found, opposite)


def _count_alike(entries: Entries, among: np.ndarray) -> np.ndarray:
    """Per entry, the number of entries `among` with the same key that differ from it in every column of `apart`.

    By inclusion and exclusion, so that no pair of entries is ever formed and the work stays linear.
    """
    total = np.zeros(len(among), np.int64)
    for size in range(len(entries.apart) + 1):
        for equal in combinations(entries.apart, size):
            total += (-1) ** size * _count(mix(entries.key, *equal), among)
    return total


def _count(key: np.ndarray, among: np.ndarray) -> np.ndarray:
    inverse = np.unique(key, return_inverse=True)[1]
    return np.bincount(inverse[among], minlength=len(key))[inverse]


def count_duplicates(corpus: Corpus, rows: np.ndarray) -> dict[str, dict[str, Any]]:
    """Within a set, per kind: `equations` that have another like them, their share in per cent, how many of them have one
    with the `opposite` label, ids of a few of those, and, for real duplicates, the `surplus` to be dropped."""
    inside = _mask(corpus, rows)
    result = {}
    for kind in KINDS:
        matches = find(corpus, kind, inside, inside)
        result[kind] = _summary(corpus, matches, rows)
        if kind in _SURPLUS:
            result[kind]["surplus"] = len(rows) - len(np.unique(corpus[_SURPLUS[kind]][rows]))
    return result


def count_overlap(corpus: Corpus) -> list[dict[str, Any]]:
    """Per ordered pair of files and kind, the equations `of` one that have one like them `in` the other.

    With more than `MOST_PAIRED` files, all the others are taken together, so that the work stays linear in their number.
    """
    result = []
    for of, name in enumerate(corpus.files):
        mask = corpus.rows_of(of)
        others = {other: corpus.rows_of(i) for i, other in enumerate(corpus.files) if i != of}
        if len(corpus.files) > MOST_PAIRED:
            others = {OTHERS: ~mask}
        for other, among in others.items():
            found = {kind: _summary(corpus, find(corpus, kind, mask, among), np.flatnonzero(mask)) for kind in KINDS}
            result.append({"of": name, "in": other, "equations": int(mask.sum()), "alike": found})
    return result


def _summary(corpus: Corpus, matches: Matches, rows: np.ndarray) -> dict[str, Any]:
    number = int(matches.found.sum())
    return {
        "equations": number,
        "share": round(100 * number / len(rows), 2),
        "opposite": int(matches.opposite.sum()),
        "examples of opposite": corpus.names(np.flatnonzero(matches.opposite)[:EXAMPLES], rows),
    }


def _mask(corpus: Corpus, rows: np.ndarray) -> np.ndarray:
    mask = np.zeros(len(corpus), bool)
    mask[rows] = True
    return mask


def is_labelled(corpus: Corpus) -> np.ndarray:
    """(n,) bool: which equations have a label."""
    return corpus["label"] != UNKNOWN
