"""What a model without recursion can see of equations, as matrices with a row per equation.

The same counts as in `generate.features`, taken from columns: a million nodes a second instead of a hundred thousand.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from dgl_treestack.audit.corpus import ROOT, Corpus

SHAPE = ("size", "depth", "left_size", "left_depth", "right_depth")
REPETITION = ("distinct", "common", "size")
MAX_DENSE = 600  # columns that a dense matrix keeps: those that are not zero in most equations


def token_counts(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """How often each token occurs."""
    position, _, token, _ = _nodes(corpus, rows)
    return _matrix(position, token, np.ones(len(token)), len(rows))


def pair_counts(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """How often each token and each pair of parent and child token occurs."""
    position, _, token, parent = _nodes(corpus, rows)
    below = parent != ROOT
    pair = parent[below].astype(np.int64) * len(corpus.tokens) + token[below]
    pairs = _matrix(position[below], pair, np.ones(len(pair)), len(rows))
    return sparse.hstack([token_counts(corpus, rows), pairs]).tocsr()


def side_differences(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """Per token, its count on the left minus its count on the right, and the absolute value of that."""
    position, place, token, _ = _nodes(corpus, rows)
    sign = np.where(place <= corpus["left_size"][rows][position], 1.0, -1.0)
    sides = place > 0
    difference = _matrix(position[sides], token[sides], sign[sides], len(rows))
    return sparse.hstack([difference, abs(difference)]).tocsr()


def shapes(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """Size and depth, of the whole and of each side."""
    return _columns(corpus, rows, SHAPE)


def repetition(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """How many distinct subtrees, how many common to both sides, and of how many nodes in all."""
    return _columns(corpus, rows, REPETITION)


def everything(corpus: Corpus, rows: np.ndarray) -> sparse.csr_matrix:
    """All of the above side by side."""
    return sparse.hstack([part(corpus, rows) for part in (shapes, repetition, pair_counts, side_differences)]).tocsr()


def dense(matrix: sparse.csr_matrix) -> np.ndarray:
    """The matrix as an array, the fullest `MAX_DENSE` columns of it."""
    filled = np.bincount(matrix.indices, minlength=matrix.shape[1])
    kept = np.sort(np.argsort(-filled, kind="stable")[:MAX_DENSE])
    return matrix[:, kept].toarray()


def _columns(corpus: Corpus, rows: np.ndarray, names: Sequence[str]) -> sparse.csr_matrix:
    return sparse.csr_matrix(np.stack([corpus[name][rows] for name in names], axis=1).astype(np.float32))


def _nodes(corpus: Corpus, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per node: position in `rows`, position in its tree, token, token of the parent."""
    position, place = corpus.nodes(rows)
    node = corpus.offsets[rows][position] + place
    return position, place, corpus.token[node], corpus.parent[node]


def _matrix(position: np.ndarray, feature: np.ndarray, value: np.ndarray, rows: int) -> sparse.csr_matrix:
    """The sums of values per equation and feature; features that do not occur have no column."""
    present, column = np.unique(feature, return_inverse=True)
    triples = (value.astype(np.float32), (position, column))
    matrix = sparse.coo_matrix(triples, shape=(rows, len(present))).tocsr()
    matrix.eliminate_zeros()
    return matrix
