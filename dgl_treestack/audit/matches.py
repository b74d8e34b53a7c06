"""Duplicates and near-duplicates within a file and between files.

An equation has entries, each with a key; equations with an equal key are alike. `KINDS` has the kinds of duplicates.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from dgl_treestack.audit.corpus import NO_SIDE, EquationTable

EXAMPLES = 5
MOST_PAIRED = 4  # with more files, the overlap of a file is that with all other files together
OTHERS = "the other files"
_SURPLUS = {"same text": "text", "same equation": "key"}
NODES_AT_A_TIME = 4_000_000


# Per entry (E,) its equation, and the digest by which equations are compared; then columns (E,): two entries with the same
# digest count only if they differ in all of these.
Entries = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]


def mix(*columns: np.ndarray) -> np.ndarray:
    """Return one digest of 64 bits per row of integer columns (the finalizer of splitmix64, applied column after column)."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64) + np.uint64(0x632BE59BD9B4E019)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _equations(corpus: EquationTable, rows: np.ndarray, column: str) -> Iterator[Entries]:
    """One entry per equation: a digest of the equation."""
    yield rows, corpus[column][rows], (rows,)


def _sides(corpus: EquationTable, rows: np.ndarray) -> Iterator[Entries]:
    """One entry per side that is deep enough; members of a pair are not compared."""
    row = np.concatenate([rows, rows])
    key = np.concatenate([corpus["left"][rows], corpus["right"][rows]])
    row, key = row[key != NO_SIDE], key[key != NO_SIDE]
    yield row, key, (corpus["pair"][row],)


def _masked(corpus: EquationTable, rows: np.ndarray) -> Iterator[Entries]:
    """One entry per node: the equation with the token of this node masked; members of a pair are not compared.

    An equation with an equal key and another token at the node is one label apart. Its tree has the same shape, so trees are
    processed shape by shape, about `NODES_AT_A_TIME` nodes at a time.
    """
    _, shapes, counts = np.unique(corpus["shape"][rows], return_inverse=True, return_counts=True)
    is_shared = counts[shapes] > 1
    order = np.argsort(shapes[is_shared], kind="stable")
    rows, shapes = rows[is_shared][order], shapes[is_shared][order]
    total = np.cumsum(corpus["size"][rows].astype(np.int64))
    last_of_shape = np.flatnonzero(np.diff(shapes, append=-1))
    start = 0
    while start < len(rows):
        limit = NODES_AT_A_TIME + (total[start - 1] if start else 0)
        ends = last_of_shape[last_of_shape >= start]
        fitting = int(np.searchsorted(total[ends], limit, side="right"))
        end = 1 + int(ends[max(fitting, 1) - 1])
        part, start = rows[start:end], end
        position, index, node = corpus.nodes(part)
        token = corpus.token[node]
        word = mix(token, index)
        total_word = np.zeros(len(part), np.uint64)
        np.add.at(total_word, position, word)  # a sum of digests, from which the digest of one node can be subtracted
        key = mix(total_word[position] - word, index, corpus["shape"][part][position])
        row = part[position]
        yield row, key, (token, corpus["pair"][row])


# name -> entries. "same equation" and "shared side" compare by `folds.canonical_key`.
KINDS: dict[str, Callable[[EquationTable, np.ndarray], Iterator[Entries]]] = {
    "same text": partial(_equations, column="text"),
    "same equation": partial(_equations, column="key"),
    "one label apart": _masked,
    "shared side": _sides,
}


def find(corpus: EquationTable, kind: str, of: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the equations of a set that are like another equation of a second (or the same) set.

    kind: a name of `KINDS`. of, among: the sets, as masks (n,) bool. Returns two such masks: equations that are like another
    one, and like another one with the opposite label.
    """
    alike, opposite = np.zeros(len(corpus), bool), np.zeros(len(corpus), bool)
    label = corpus["label"]
    for row, key, apart in KINDS[kind](corpus, np.flatnonzero(of | among)):
        inside = of[row]
        alike[row[inside & (_count_alike(key, apart, among[row]) > 0)]] = True
        for value in (0, 1):
            contrary = _count_alike(key, apart, (among & (label == 1 - value))[row])
            opposite[row[inside & (label[row] == value) & (contrary > 0)]] = True
    return alike, opposite


def _count_alike(key: np.ndarray, apart: Sequence[np.ndarray], among: np.ndarray) -> np.ndarray:
    """Count for each entry the entries of the mask `among` with the same key that differ from it in every column of `apart`.

    By inclusion and exclusion, in linear time: no pair of entries is formed.
    """
    total = np.zeros(len(among), np.int64)
    for size in range(len(apart) + 1):
        for equal_columns in combinations(apart, size):
            group = np.unique(mix(key, *equal_columns), return_inverse=True)[1]
            total += (-1) ** size * np.bincount(group[among], minlength=len(among))[group]
    return total


def count_duplicates(corpus: EquationTable, rows: np.ndarray) -> dict[str, dict[str, Any]]:
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


def count_overlap(corpus: EquationTable) -> list[dict[str, Any]]:
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


def _count_matches(corpus: EquationTable, kind: str, of: np.ndarray, among: np.ndarray) -> dict[str, Any]:
    alike, opposite = find(corpus, kind, of, among)
    return {
        "equations": int(alike.sum()),
        "share": round(100 * int(alike.sum()) / int(of.sum()), 2),
        "opposite": int(opposite.sum()),
        "examples of opposite": corpus.names(np.flatnonzero(opposite)[:EXAMPLES], np.flatnonzero(of)),
    }
