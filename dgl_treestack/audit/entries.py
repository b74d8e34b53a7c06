"""In which ways two equations can be alike. An equation makes entries with a key; it is like another that has an equal key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dgl_treestack.audit.corpus import Corpus
from dgl_treestack.audit.examination import NO_SIDE

NODES_AT_A_TIME = 4_000_000


@dataclass(frozen=True, eq=False)
class Entries:
    """row: (E,) the equation of an entry. key: (E,) its digest. apart: columns (E,) in all of which two entries must differ."""

    row: np.ndarray
    key: np.ndarray
    apart: tuple[np.ndarray, ...]


def mix(*columns: np.ndarray) -> np.ndarray:
    """One digest of 64 bits per row of some integer columns (the finalizer of splitmix64, applied column after column)."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64) + np.uint64(0x632BE59BD9B4E019)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _texts(corpus: Corpus, rows: np.ndarray) -> Iterator[Entries]:
    yield Entries(rows, corpus["text"][rows], (rows,))


def _keys(corpus: Corpus, rows: np.ndarray) -> Iterator[Entries]:
    yield Entries(rows, corpus["key"][rows], (rows,))


def _sides(corpus: Corpus, rows: np.ndarray) -> Iterator[Entries]:
    both = np.concatenate([rows, rows])
    key = np.concatenate([corpus["left"][rows], corpus["right"][rows]])
    there = key != NO_SIDE
    yield Entries(both[there], key[there], (corpus["pair"][both[there]],))


def _edits(corpus: Corpus, rows: np.ndarray) -> Iterator[Entries]:
    """Per node, what the equation is when that node's token is not looked at: equal, with another token there, is one apart.

    Only trees of one shape can be; they are taken together, some shapes at a time.
    """
    _, inverse, counts = np.unique(corpus["shape"][rows], return_inverse=True, return_counts=True)
    several = counts[inverse] > 1
    order = np.argsort(inverse[several], kind="stable")
    rows, shapes = rows[several][order], inverse[several][order]
    total = np.cumsum(corpus["size"][rows].astype(np.int64))
    last_of_shape = np.flatnonzero(np.diff(shapes, append=-1))
    start = 0
    while start < len(rows):
        used = total[start - 1] if start else 0
        fitting = last_of_shape[(last_of_shape >= start) & (total[last_of_shape] <= used + NODES_AT_A_TIME)]
        end = 1 + int(fitting[-1] if len(fitting) else last_of_shape[last_of_shape >= start][0])
        yield _edits_of(corpus, rows[start:end])
        start = end


def _edits_of(corpus: Corpus, rows: np.ndarray) -> Entries:
    position, place = corpus.nodes(rows)
    token = corpus.token[corpus.offsets[rows][position] + place]
    word = mix(token, place)
    whole = np.zeros(len(rows), np.uint64)
    np.add.at(whole, position, word)  # a sum of digests, so that one can be taken out again
    masked = mix(whole[position] - word, place, corpus["shape"][rows][position])
    row = rows[position]
    return Entries(row, masked, (token, corpus["pair"][row]))


# name -> entries. The same equation is one of the same `folds.canonical_key`; a shared side is a whole one. Members of a pair
# are meant to be alike: they do not count as neighbours, nor for a shared side.
KINDS: dict[str, Callable[[Corpus, np.ndarray], Iterator[Entries]]] = {
    "same text": _texts,
    "same equation": _keys,
    "one label apart": _edits,
    "shared side": _sides,
}
