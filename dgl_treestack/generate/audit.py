"""Leakage: how well models that cannot do mathematics tell true from false equations.

Every baseline is scored by five-fold cross-validation in which both members of a pair are in the same fold, and reported
at its best setting. 50 is chance; what a network reaches beyond these figures it did not get from local statistics.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from dgl_treestack.generate.features import pair_counts, shape, side_difference, token_counts

C_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
TREES = 300
DEPTH_GROUPS = ((1, 2), (3, 4), (5, 7), (8, 10), (11, 13), (14, 1000))


def _linear(features: Callable) -> tuple[Callable, tuple[Callable[[], Any], ...]]:
    return features, tuple(
        lambda strength=strength: LogisticRegression(C=strength, solver="liblinear", max_iter=300) for strength in C_GRID
    )


def _forest(features: Callable) -> tuple[Callable, tuple[Callable[[], Any], ...]]:
    return features, (lambda: RandomForestClassifier(TREES, min_samples_leaf=5, random_state=0),)


# name -> features and the settings to try
BASELINES = {
    "tokens": _linear(token_counts),
    "parent-child pairs": _linear(pair_counts),
    "side differences": _forest(side_difference),
    "size and depth": _forest(shape),
}


def leakage(examples: Iterable, baselines: Sequence[str] = tuple(BASELINES), parts: int = 5) -> dict[str, dict[str, float]]:
    """Accuracy in per cent of each baseline: baseline -> {"all": ..., "depth 3-4": ..., ...}.

    examples: `formats.Example` with labels; those without a pair are groups of their own.
    """
    listed = [example for example in examples if example.label is not None]
    labels = np.array([example.label for example in listed])
    groups = np.unique([example.pair or example.id for example in listed], return_inverse=True)[1]
    depths = np.array([example.equation.depth for example in listed])
    return {name: _best(name, listed, labels, groups, depths, parts) for name in baselines}


def _best(name: str, examples: list, labels: np.ndarray, groups: np.ndarray, depths: np.ndarray, parts: int) -> dict:
    features, settings = BASELINES[name]
    rows = DictVectorizer(dtype=np.float32).fit_transform([features(example.equation) for example in examples])
    hits = [_hits(setting, rows, labels, groups, parts) for setting in settings]
    best = max(hits, key=lambda hit: hit.mean())
    return {"all": _percent(best), **{_title(g): _percent(best[m]) for g, m in _masks(depths)}}


def _hits(setting: Callable[[], Any], rows: Any, labels: np.ndarray, groups: np.ndarray, parts: int) -> np.ndarray:
    """Per example, whether the model fitted without its fold is right about it."""
    right = np.zeros(len(labels), bool)
    for train, test in GroupKFold(parts).split(rows, labels, groups):
        right[test] = setting().fit(rows[train], labels[train]).predict(rows[test]) == labels[test]
    return right


def _masks(depths: np.ndarray) -> list[tuple[tuple[int, int], np.ndarray]]:
    masks = [((low, high), (depths >= low) & (depths <= high)) for low, high in DEPTH_GROUPS]
    return [(group, mask) for group, mask in masks if mask.any()]


def _title(group: tuple[int, int]) -> str:
    return f"depth {group[0]}-{group[1]}"


def _percent(hits: np.ndarray) -> float:
    return round(100 * float(hits.mean()), 2)
