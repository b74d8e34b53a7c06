"""The papers' convention: equations grown from axioms that do not all hold, never verified, and single mutations of them.

A label here is what the papers would have said; what `truth` says of the same equation stands beside it. Depths and the
share of correct equations follow Mali et al. (2021), Table 1.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import starmap
from pathlib import Path

import dgl_treestack
from dgl_treestack.data.formats import Example
from dgl_treestack.data.formats.lines import to_dict
from dgl_treestack.expression import Equation
from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.papers.unverified import Cell, Unverified
from dgl_treestack.generate.presets import Options, Parts, Preset, Product, Row, Shard
from dgl_treestack.generate.presets.paper import COUNTS, TRAINING_DEPTH
from dgl_treestack.generate.random import stream
from dgl_treestack.truth import judge

AXIOMS = Path(dgl_treestack.__file__).parent / "resources" / "axioms_paper.txt"
CORRECT = dict(enumerate((0.52, 0.57, 0.62, 0.61, 0.58, 0.56, 0.54, 0.52, 0.52, 0.49, 0.50, 0.50, 0.50), start=1))
SHALLOW = 3  # made in one shard: so few are different that shards would find the same ones
FILES = ("train", "validation", "test")
VALIDATION_SHARE = 0.2

_SHARD = 1000  # equations
_ROUNDS = 4  # of filling what duplicates between shards left empty
_BUDGET = 4000  # operations in 80 digits for a judgement

Quota = Counter[Cell]  # equations per depth and label


class PaperLabels(Preset):
    summary = "the papers' convention: axioms with both signs of the roots, single mutations, labels never verified"
    seed = 2018
    accepts = frozenset({"equations"})

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        asked = wanted(options)
        shards = _shards(asked, 0)
        for number in range(1, _ROUNDS):
            names = [shard.name for shard in shards]
            if not set(names) <= set(parts.names()):
                return shards
            missing = _surplus(asked - _kept(asked, parts, names))
            if not missing:
                return shards
            shards += _shards(missing, number)
        return shards

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        rng = stream(options.seed, shard.name)
        quota: Quota = Counter({(depth, label): count for depth, label, count in shard.work["quota"]})
        return starmap(_row, Unverified(load_axioms(AXIOMS), quota, rng).run())

    def finish(self, options: Options, parts: Parts) -> Product:
        asked = wanted(options)
        rows = list(_distinct(asked, parts, parts.names()))
        validation = stream(options.seed, "folds").random(len(rows)) < VALIDATION_SHARE
        files: dict[str, list[Row]] = {f"{fold}.jsonl.gz": [] for fold in FILES}
        for i, row in enumerate(rows):
            fold = "test" if row["depth"] > TRAINING_DEPTH else "validation" if validation[i] else "train"
            files[f"{fold}.jsonl.gz"].append(_line(row, f"p{i}", fold))
        return Product(files, _notes(rows, asked))


def wanted(options: Options) -> Quota:
    """Equations of each depth and label."""
    scale = options.equations / sum(COUNTS.values()) if options.equations else 1.0
    quota: Quota = Counter()
    for depth, count in COUNTS.items():
        total = max(2, round(scale * count))
        quota[depth, 1] = round(CORRECT[depth] * total)
        quota[depth, 0] = total - quota[depth, 1]
    return quota


def _shards(quota: Quota, number: int) -> list[Shard]:
    """The quota in one shard for shallow equations, and in equal shards for the others."""
    shallow = Counter({cell: count for cell, count in quota.items() if cell[0] <= SHALLOW})
    deep = quota - shallow
    count = max(1, round(deep.total() / _SHARD)) if deep else 0
    pieces = [_piece(deep, i, count) for i in range(count)]
    named = [(f"{number}-{i:03d}", piece) for i, piece in enumerate([shallow, *pieces])]
    return [Shard(name, {"quota": [[*cell, count] for cell, count in sorted(piece.items())]}) for name, piece in named if piece]


def _piece(quota: Quota, index: int, count: int) -> Quota:
    """One of `count` parts that add up to the quota."""
    ends = {cell: (total * index // count, total * (index + 1) // count) for cell, total in quota.items()}
    return Counter({cell: end - start for cell, (start, end) in ends.items() if end > start})


def _surplus(missing: Quota) -> Quota:
    """Much more than is missing, since most of what a new shard finds first is there already."""
    return Counter({cell: 3 * count + 3 for cell, count in missing.items()})


def _row(equation: Equation, label: int) -> Row:
    judged = judge(equation, _BUDGET).verdict
    key = canonical_key(equation)
    return {"key": key, "prefix": equation.prefix(), "depth": equation.depth, "label": label, "judged": judged}


# Putting together


def _distinct(asked: Quota, parts: Parts, names: Iterable[str]) -> Iterator[Row]:
    """Rows in the order of the parts' names, no equation twice, no more of a depth and label than asked for."""
    seen: set[str] = set()
    left = Counter(asked)
    for name in sorted(names):
        for row in parts.rows(name):
            cell = row["depth"], row["label"]
            if row["key"] not in seen and left[cell] > 0:
                seen.add(row["key"])
                left[cell] -= 1
                yield row


def _kept(asked: Quota, parts: Parts, names: Iterable[str]) -> Quota:
    return Counter((row["depth"], row["label"]) for row in _distinct(asked, parts, names))


def _line(row: Row, name: str, fold: str) -> Row:
    certificate = {"convention": "papers", "judged": row["judged"]}
    return to_dict(Example(Equation.from_prefix(row["prefix"]), row["label"], name, fold, certificate=certificate))


def _notes(rows: list[Row], asked: Quota) -> Row:
    judged = Counter((row["label"], row["depth"] > TRAINING_DEPTH, row["judged"]) for row in rows)
    short = asked - Counter((row["depth"], row["label"]) for row in rows)
    names = {(label, deep): f"label {label}, depth {'8-13' if deep else '1-7'}" for label in (1, 0) for deep in (False, True)}
    return {
        "labels": "the papers', not verified; a single mutation leaves traces that a model without recursion can see",
        "judged": {name: {v: n for (*cell, v), n in sorted(judged.items()) if (*cell,) == key} for key, name in names.items()},
        "fell short": {f"depth {depth}, label {label}": count for (depth, label), count in sorted(short.items())},
    }


PRESET = PaperLabels()
