"""The papers' convention: equations grown from axioms that do not all hold, never verified, and single mutations of them.

A label here is what the papers would have assigned; the verdict of `truth` on the same equation is in its certificate. Depths
and the share of correct equations follow Mali et al. (2021), Table 1.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from dgl_treestack.data.formats import Example, to_dict
from dgl_treestack.generate.folds import canonical_key
from dgl_treestack.generate.papers import unverified
from dgl_treestack.generate.presets import Cell, Deal, Options, Parts, Preset, Product, Row, Shard, deal, stream
from dgl_treestack.generate.presets.paper import COUNTS, TRAINING_DEPTH
from dgl_treestack.generate.rewrite import AXIOMS as IDENTITIES
from dgl_treestack.generate.rewrite import load_axioms
from dgl_treestack.truth import judge_at_fixed_points

AXIOMS = IDENTITIES.with_name("axioms_paper.txt")
CORRECT = dict(enumerate((0.52, 0.57, 0.62, 0.61, 0.58, 0.56, 0.54, 0.52, 0.52, 0.49, 0.50, 0.50, 0.50), start=1))
SHALLOW = 3  # up to this depth one shard generates all equations, because several would find the same few
VALIDATION_SHARE = 0.2

_SHARD = 1000  # equations
_ROUNDS = 4  # of shards; all but the first replace equations that several shards found
_BUDGET = 4000  # operations in 80 digits for a judgement

Quota = Counter[Cell]  # equations per depth and label


class PaperLabels(Preset):
    summary = "the papers' convention: axioms with both signs of the roots, single mutations, labels never verified"
    seed = 2018

    def shards(self, options: Options, parts: Parts) -> list[Shard]:
        """Return the shards of all rounds so far. A round has one shard of shallow equations, and shards of equal size of the
        others."""
        target, shards = target_counts(options), list[Shard]()
        requested = target
        for round_number in range(_ROUNDS):
            shallow = Counter({cell: count for cell, count in requested.items() if cell[0] <= SHALLOW})
            deep = requested - shallow
            shares, number_of_shares = [shallow], max(1, round(deep.total() / _SHARD)) if deep else 0
            for i in range(number_of_shares):
                ends = {cell: (n * i // number_of_shares, n * (i + 1) // number_of_shares) for cell, n in deep.items()}
                shares.append(Counter({cell: end - start for cell, (start, end) in ends.items() if end > start}))
            for i, share in enumerate(shares):
                if share:
                    quota = [[*cell, count] for cell, count in sorted(share.items())]
                    shards.append(Shard(f"{round_number}-{i:03d}", {"quota": quota}))
            names = [shard.name for shard in shards]
            if not set(names) <= set(parts.names()):
                break
            missing = target - _dealt(options, parts, names).kept
            if not missing:
                break
            # A new shard first finds equations that exist already, so it gets a larger quota than is missing.
            requested = Counter({cell: 3 * count + 3 for cell, count in missing.items()})
        return shards

    def make(self, options: Options, shard: Shard) -> Iterator[Row]:
        quota: Quota = Counter({(depth, label): count for depth, label, count in shard.work["quota"]})
        for equation, label in unverified(load_axioms(AXIOMS), quota, stream(options.seed, shard.name)):
            certificate = {"convention": "papers", "judged": judge_at_fixed_points(equation, _BUDGET).verdict}
            line = to_dict(Example(equation, label, fold="train", certificate=certificate))
            yield {"keys": [canonical_key(equation)], "cell": [equation.depth, label], "lines": [line]}

    def finish(self, options: Options, parts: Parts) -> Product:
        dealt, judged = _dealt(options, parts, parts.names()), dict[str, Counter[str]]()
        for label, fold in product((1, 0), dealt.lines):
            verdicts = judged.setdefault(f"label {label}, depth {'8-13' if fold == 'test' else '1-7'}", Counter())
            verdicts.update(line["certificate"]["judged"] for line in dealt.lines[fold] if line["label"] == label)
        short = target_counts(options) - dealt.kept
        notes = {
            "labels": "the papers', not verified; a single mutation leaves traces that a model without recursion can see",
            "judged": {name: dict(sorted(counts.items())) for name, counts in judged.items()},
            "fell short": {f"depth {depth}, label {label}": count for (depth, label), count in sorted(short.items())},
        }
        return Product(dealt.files(), notes)


PRESET = PaperLabels()


def target_counts(options: Options) -> Quota:
    """Return the number of equations of each depth and label."""
    scale = options.equations / sum(COUNTS.values()) if options.equations else 1.0
    quota: Quota = Counter()
    for depth, count in COUNTS.items():
        total = max(2, round(scale * count))
        quota[depth, 1] = round(CORRECT[depth] * total)
        quota[depth, 0] = total - quota[depth, 1]
    return quota


def _dealt(options: Options, parts: Parts, names: Iterable[str]) -> Deal:
    """Deal the rows of some parts, in the order of their names; deep equations are for the test."""
    rng = stream(options.seed, "folds")

    def folds(cell: Cell, count: int) -> Iterator[str]:
        for _ in range(count):
            is_validation = rng.random() < VALIDATION_SHARE
            yield "test" if cell[0] > TRAINING_DEPTH else "validation" if is_validation else "train"

    return deal(parts.rows(*sorted(names)), {cell: folds(cell, n) for cell, n in target_counts(options).items()}, "p")
