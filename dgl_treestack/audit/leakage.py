"""Leakage: how well the baselines distinguish correct from incorrect equations, fitted to and scored on one group of depths.

Every setting is scored by five-fold cross-validation in which the members of a pair are in the same fold; the best setting
is reported. Chance is the share of the more frequent label.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from dgl_treestack.audit.baselines import BASELINES
from dgl_treestack.audit.corpus import UNKNOWN, Corpus

DEPTH_GROUPS = ((1, 2), (3, 4), (5, 7), (8, 13), (14, 19), (20, None))
SAMPLE = 20_000
FEWEST = 20  # minimum equations of each label in a group
PARTS = 5


@dataclass(frozen=True)
class Fit:
    """How leakage is measured.

    sample: equations per group at most, 0 for all. jobs: threads. baselines: names of `BASELINES`.
    groups: minimum and maximum depth of each group; None is no limit.
    """

    sample: int = SAMPLE
    jobs: int = 1
    baselines: Sequence[str] = tuple(BASELINES)
    groups: Sequence[tuple[int, int | None]] = DEPTH_GROUPS


DEFAULT = Fit()


@dataclass(frozen=True, eq=False)
class DepthGroup:
    """The labelled equations of a range of depths.

    depths: the range as text. rows: (n,) positions of all of them. used: those of the sample. skipped: why the group cannot be
    measured, or "".
    """

    depths: str
    rows: np.ndarray
    used: np.ndarray
    skipped: str


def measure(corpus: Corpus, rows: np.ndarray, fit: Fit = DEFAULT, title: str = "") -> list[dict]:
    """Measure leakage: a row per depth group with labelled equations.

    A row has the number of `equations`, how many were `used`, the `majority` in per cent, and `baselines`: name -> `accuracy`
    and `standard_error` in per cent, `setting`, `above` (more than two standard errors above the majority). A group with too
    few equations has `skipped` with the reason instead.

    rows: positions of equations. title: of a progress bar, none without it.
    """
    groups, result = list(depth_groups(corpus, rows, fit)), []
    fits_of_group = PARTS * sum(len(BASELINES[name].settings) for name in fit.baselines)
    total = fits_of_group * sum(not group.skipped for group in groups)
    with tqdm(total=total, desc=title, unit="fit", disable=not title, leave=False) as bar:
        for group in groups:
            row: dict[str, Any] = {"depths": group.depths, "equations": len(group.rows)}
            if group.skipped:
                result.append({**row, "skipped": group.skipped})
                continue
            label = corpus["label"][group.used]
            majority = float(100 * max(label.mean(), 1 - label.mean()))
            scores = {name: _score(corpus, group.used, name, fit.jobs, majority, bar) for name in fit.baselines}
            result.append({**row, "used": len(group.used), "majority": round(majority, 2), "baselines": scores})
    return result


def depth_groups(corpus: Corpus, rows: np.ndarray, fit: Fit) -> Iterator[DepthGroup]:
    """Yield the groups with labelled equations. rows: positions of equations."""
    rows = rows[corpus["label"][rows] != UNKNOWN]
    depth = corpus["depth"][rows]
    for low, high in fit.groups:
        inside = rows[(depth >= low) & (depth <= (math.inf if high is None else high))]
        if not len(inside):
            continue
        used = sampled(corpus, inside, fit.sample)
        correct, pairs = int(corpus["label"][used].sum()), len(np.unique(corpus["pair"][used]))
        incorrect, skipped = len(used) - correct, ""
        if min(correct, incorrect) < FEWEST:
            skipped = f"{correct} correct and {incorrect} incorrect equations; {FEWEST} of each are needed"
        elif pairs < PARTS:
            skipped = f"{pairs} pairs; {PARTS} are needed"
        yield DepthGroup(f"{low}+" if high is None else f"{low}-{high}", inside, used, skipped)


def sampled(corpus: Corpus, rows: np.ndarray, limit: int) -> np.ndarray:
    """Return about `limit` of the equations at most (0: all), in order, as complete pairs, always the same ones."""
    if not limit or len(rows) <= limit:
        return rows
    pair = np.unique(corpus["pair"][rows], return_inverse=True)[1]
    rank = np.random.default_rng(0).permutation(pair.max() + 1)
    members = np.bincount(rank[pair])
    fitting = max(1, int(np.searchsorted(np.cumsum(members), limit, side="right")))
    return rows[rank[pair] < fitting]


def _score(corpus: Corpus, rows: np.ndarray, name: str, jobs: int, majority: float, bar: tqdm) -> dict[str, Any]:
    """Return the accuracy of a baseline with its best setting, cross-validated over parts of the pairs. bar: counts fits."""
    baseline, label = BASELINES[name], corpus["label"][rows]
    features = baseline.features(corpus, rows)
    pair = np.unique(corpus["pair"][rows], return_inverse=True)[1]
    part = (np.random.default_rng(1).permutation(pair.max() + 1) % PARTS)[pair]
    shares = {}
    for setting in baseline.settings:
        right = 0
        for held_out in range(PARTS):
            train, test = np.flatnonzero(part != held_out), np.flatnonzero(part == held_out)
            if label[train].min() == label[train].max():  # one label only: nothing to fit
                predicted = np.full(len(test), label[train][0])
            else:
                with threadpool_limits(jobs):
                    predicted = baseline.build(setting, jobs).fit(features[train], label[train]).predict(features[test])
            right += int((predicted == label[test]).sum())
            bar.update()
        shares[setting] = right / len(label)
    best = max(shares, key=lambda setting: shares[setting])
    accuracy, error = 100 * shares[best], 100 * math.sqrt(shares[best] * (1 - shares[best]) / len(rows))
    return {
        "accuracy": round(accuracy, 2),
        "standard_error": round(error, 2),
        "setting": best,
        "above": bool(accuracy - 2 * error > majority),
    }
