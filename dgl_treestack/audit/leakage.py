"""Leakage: how well the baselines distinguish correct from incorrect equations, fitted to and scored on one group of depths.

Every setting is scored by five-fold cross-validation in which the members of a pair are in the same fold; the best setting
is reported. Chance is the share of the more frequent label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import PredefinedSplit, cross_val_predict
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


def measure(corpus: Corpus, rows: np.ndarray, fit: Fit = DEFAULT, title: str = "") -> list[dict]:
    """Measure leakage: a row per depth group with labelled equations.

    A row has the number of `equations`, how many were `used`, the `majority` in per cent, and `baselines`: name -> `accuracy`
    and `standard_error` in per cent, `setting`, `above` (more than two standard errors above the majority). A group with too
    few equations has `skipped` with the reason instead.

    rows: positions of equations. title: of a progress bar, none without it.
    """
    rows = rows[corpus["label"][rows] != UNKNOWN]
    result, measured = list[dict[str, Any]](), list[tuple[dict[str, Any], np.ndarray, np.ndarray]]()
    depth = corpus["depth"][rows]
    for low, high in fit.groups:
        inside = rows[(depth >= low) & (depth <= (math.inf if high is None else high))]
        if not len(inside):
            continue
        used = sampled(corpus, inside, fit.sample)
        label, pair = corpus["label"][used], np.unique(corpus["pair"][used], return_inverse=True)[1]
        correct, pairs = int(label.sum()), int(pair.max()) + 1
        part = (np.random.default_rng(1).permutation(pairs) % PARTS)[pair]
        result.append({"depths": f"{low}+" if high is None else f"{low}-{high}", "equations": len(inside)})
        if min(correct, len(used) - correct) < FEWEST:
            counts = f"{correct} correct and {len(used) - correct} incorrect equations"
            result[-1]["skipped"] = f"{counts}; {FEWEST} of each are needed"
        elif pairs < PARTS:
            result[-1]["skipped"] = f"{pairs} pairs; {PARTS} are needed"
        elif any(len(np.unique(part[label == value])) == 1 for value in (0, 1)):
            result[-1]["skipped"] = f"all equations of one label are in one of the {PARTS} parts"
        else:
            measured.append((result[-1], used, part))
    fits_of_group = PARTS * sum(len(BASELINES[name].settings) for name in fit.baselines)
    with tqdm(total=fits_of_group * len(measured), desc=title, unit="fit", disable=not title, leave=False) as bar:
        for row, used, part in measured:
            share = corpus["label"][used].mean()
            majority = float(100 * max(share, 1 - share))
            scores = {name: _score(corpus, used, part, name, fit.jobs, majority, bar) for name in fit.baselines}
            row |= {"used": len(used), "majority": round(majority, 2), "baselines": scores}
    return result


def sampled(corpus: Corpus, rows: np.ndarray, limit: int) -> np.ndarray:
    """Return about `limit` of the equations at most (0: all), in order, as complete pairs, always the same ones."""
    if not limit or len(rows) <= limit:
        return rows
    pair = np.unique(corpus["pair"][rows], return_inverse=True)[1]
    rank = np.random.default_rng(0).permutation(pair.max() + 1)
    members = np.bincount(rank[pair])
    fitting = max(1, int(np.searchsorted(np.cumsum(members), limit, side="right")))
    return rows[rank[pair] < fitting]


def _score(
    corpus: Corpus, rows: np.ndarray, part: np.ndarray, name: str, jobs: int, majority: float, bar: tqdm
) -> dict[str, Any]:
    """Return the accuracy of a baseline with its best setting, cross-validated over parts of the pairs. bar: counts fits."""
    baseline, label = BASELINES[name], corpus["label"][rows]
    features = baseline.features(corpus, rows)
    shares = {}
    for setting in baseline.settings:
        with threadpool_limits(jobs):
            predicted = cross_val_predict(baseline.build(setting, jobs), features, label, cv=PredefinedSplit(part))
        bar.update(PARTS)
        shares[setting] = float((predicted == label).mean())
    best = max(shares, key=lambda setting: shares[setting])
    accuracy, error = 100 * shares[best], 100 * math.sqrt(shares[best] * (1 - shares[best]) / len(rows))
    return {
        "accuracy": round(accuracy, 2),
        "standard_error": round(error, 2),
        "setting": best,
        "above": bool(accuracy - 2 * error > majority),
    }
