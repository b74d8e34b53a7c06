"""Leakage: how well the baselines tell correct from incorrect equations, fitted on and within one group of depths.

Every setting is scored by five-fold cross-validation in which the members of a pair are in the same fold; the best setting
is reported. Chance is the share of the commoner label.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dgl_treestack.audit.baselines import BASELINES
from dgl_treestack.audit.corpus import Corpus
from dgl_treestack.audit.matches import is_labelled

DEPTH_GROUPS = ((1, 2), (3, 4), (5, 7), (8, 13), (14, 19), (20, None))
SAMPLE = 20_000
FEWEST = 20  # equations of each label that a group needs
PARTS = 5

Group = tuple[int, int | None]


@dataclass(frozen=True)
class Fit:
    """How leakage is measured. sample: equations per group at most, 0 for all. baselines: names of `BASELINES`."""

    sample: int = SAMPLE
    jobs: int = 1
    baselines: Sequence[str] = tuple(BASELINES)
    groups: Sequence[Group] = DEPTH_GROUPS


DEFAULT = Fit()


def measure(corpus: Corpus, rows: np.ndarray, fit: Fit = DEFAULT, step: Callable[[int], Any] = lambda n: None) -> list[dict]:
    """A row per depth group that has equations of both labels: its number of `equations`, how many were `used`, the
    `majority` in per cent, and `baselines`: name -> `accuracy` and `standard_error` in per cent, `setting`, `above` (more than
    two standard errors above the majority). A group with too few has `skipped` with the reason instead.

    rows: positions of equations. step: called with 1 after every model that is fitted.
    """
    result = []
    for group, inside in labelled_groups(corpus, rows, fit.groups):
        row: dict[str, Any] = {"depths": title(group), "equations": len(inside)}
        used = sampled(corpus, inside, fit.sample)
        if reason := _too_few(corpus, used):
            result.append({**row, "skipped": reason})
            continue
        label = corpus["label"][used]
        majority = 100 * max(label.mean(), 1 - label.mean())
        scores = {name: _score(corpus, used, name, fit.jobs, float(majority), step) for name in fit.baselines}
        result.append({**row, "used": len(used), "majority": round(float(majority), 2), "baselines": scores})
    return result


def count_fits(corpus: Corpus, rows: np.ndarray, fit: Fit) -> int:
    """How many models `measure` will fit."""
    groups = [inside for _, inside in labelled_groups(corpus, rows, fit.groups)]
    measured = sum(not _too_few(corpus, sampled(corpus, inside, fit.sample)) for inside in groups)
    return measured * PARTS * sum(len(BASELINES[name].settings) for name in fit.baselines)


def labelled_groups(corpus: Corpus, rows: np.ndarray, groups: Sequence[Group]) -> Iterator[tuple[Group, np.ndarray]]:
    """The groups that have labelled equations, with their positions."""
    rows = rows[is_labelled(corpus)[rows]]
    depth = corpus["depth"][rows]
    for low, high in groups:
        inside = rows[(depth >= low) & (depth <= (math.inf if high is None else high))]
        if len(inside):
            yield (low, high), inside


def title(group: Group) -> str:
    low, high = group
    return f"{low}+" if high is None else f"{low}-{high}"


def sampled(corpus: Corpus, rows: np.ndarray, limit: int) -> np.ndarray:
    """At most about `limit` of the equations, in order, pairs kept whole; the same ones every time. 0 is no limit."""
    if not limit or len(rows) <= limit:
        return rows
    pair = np.unique(corpus["pair"][rows], return_inverse=True)[1]
    rank = np.random.default_rng(0).permutation(pair.max() + 1)
    members = np.bincount(rank[pair])
    fitting = max(1, int(np.searchsorted(np.cumsum(members), limit, side="right")))
    return rows[rank[pair] < fitting]


def _too_few(corpus: Corpus, rows: np.ndarray) -> str:
    label = corpus["label"][rows]
    correct, pairs = int(label.sum()), len(np.unique(corpus["pair"][rows]))
    if min(correct, len(rows) - correct) < FEWEST:
        return f"{correct} correct and {len(rows) - correct} incorrect equations; {FEWEST} of each are needed"
    return f"{pairs} pairs; {PARTS} are needed" if pairs < PARTS else ""


def _score(
    corpus: Corpus, rows: np.ndarray, name: str, jobs: int, majority: float, step: Callable[[int], Any]
) -> dict[str, Any]:
    features, label = BASELINES[name].features(corpus, rows), corpus["label"][rows]
    part = _parts(corpus["pair"][rows])
    right = {
        setting: _share_right(partial(make, jobs), features, label, part, jobs, step)
        for setting, make in BASELINES[name].settings.items()
    }
    best = max(right, key=lambda setting: right[setting])
    accuracy, error = 100 * right[best], 100 * math.sqrt(right[best] * (1 - right[best]) / len(rows))
    return {
        "accuracy": round(accuracy, 2),
        "standard_error": round(error, 2),
        "setting": best,
        "above": bool(accuracy - 2 * error > majority),
    }


def _parts(pair: np.ndarray) -> np.ndarray:
    """Per equation, its fold: pairs are dealt out evenly in random order."""
    number = np.unique(pair, return_inverse=True)[1]
    return (np.random.default_rng(1).permutation(number.max() + 1) % PARTS)[number]


def _share_right(
    make: Callable[[], Any], features: Any, label: np.ndarray, part: np.ndarray, jobs: int, step: Callable[[int], Any]
) -> float:
    """The share of equations about which the model that was fitted without their fold is right."""
    right = 0
    for held_out in range(PARTS):
        train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
        right += int((_predict(make, features[train], label[train], features[test], jobs) == label[test]).sum())
        step(1)
    return right / len(label)


def _predict(make: Callable[[], Any], train: Any, label: np.ndarray, test: Any, jobs: int) -> np.ndarray:
    if label.min() == label.max():  # one label only: nothing to fit
        return np.full(test.shape[0], label[0])
    with threadpool_limits(jobs):
        return make().fit(train, label).predict(test)
