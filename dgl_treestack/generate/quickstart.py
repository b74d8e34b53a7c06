"""The recipe of the data in the wheel: small, certified, balanced, and with tests deeper than training."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.formats import Example, write
from dgl_treestack.generate.axioms import load_axioms
from dgl_treestack.generate.balance import balanced
from dgl_treestack.generate.folds import canonical_key, fold_of
from dgl_treestack.generate.grow import CONSTANTS, Grower
from dgl_treestack.generate.pairs import Pair, PairMaker
from dgl_treestack.generate.quotas import Quota, pick_quota
from dgl_treestack.truth import Verdict, judge

FOLDS = ("train", "validation", "test")
FILES = {fold: f"{fold}.jsonl.gz" for fold in FOLDS}
SEED = 2018  # of the files in the wheel

# Pairs per fold and depth from 2 on. Depth 2 takes what exists up to the number; depth 1 is a table of its own.
PLAN: dict[str, dict[int, int]] = {
    "train": {2: 50, 3: 300, 4: 850, 5: 1030, 6: 850, 7: 620},
    "validation": {2: 11, 3: 65, 4: 184, 5: 222, 6: 184, 7: 134},
    "test": {2: 20, **dict.fromkeys(range(3, 14), 200)},
}
# Share of the families that each fold gets, so that all folds fill at about the same time.
SHARES = {"train": 0.55, "validation": 0.13, "test": 0.32}
SURPLUS = 1.9  # pairs made for one that survives balancing
PATIENCE = 1500
GROUP_STARTS = (3, 5, 8, 11)  # depth groups that are balanced within themselves: 1-2, 3-4, 5-7, 8-10, 11 and more

# The equations of depth 1 that there are, up to names: in each cycle, every member equals itself and not its neighbour,
# so true and false have the same tokens.
_CYCLES = {"train": CONSTANTS[:6], "validation": CONSTANTS[6:9], "test": (*CONSTANTS[9:], ("Symbol", "x"))}


@dataclass
class Report:
    """What was made: equations per fold and depth, pairs dropped by reason, and the files."""

    counts: dict[str, dict[int, int]]
    dropped: dict[str, int]
    files: dict[str, Path] = field(default_factory=dict)


def generate(output_dir: Path, seed: int, progress: bool = False, plan: Mapping[str, Mapping[int, int]] = PLAN) -> Report:
    """Write train, validation and test files; the same seed and plan write the same bytes.

    plan: fold -> depth -> pairs. The report says where fewer exist than planned.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    maker = PairMaker(Grower(load_axioms(), rng))
    atoms = {fold: list(_atoms(fold)) for fold in FOLDS}
    maker.seen |= {canonical_key(e) for pairs in atoms.values() for p in pairs for e in (p.true, p.false)}
    placed = {pair.family: fold for fold, pairs in atoms.items() for pair in pairs}
    quotas = [Quota(fold, depth, round(SURPLUS * pairs), PATIENCE) for fold in FOLDS for depth, pairs in plan[fold].items()]
    _fill(quotas, maker, placed, progress)
    kept, dropped = _balance(quotas, rng)
    chosen = {fold: atoms[fold] + _within_plan(plan[fold], kept[fold]) for fold in FOLDS}
    report = Report(_counts(chosen), {**maker.tally, "dropped by balancing": dropped})
    return _write(Path(output_dir), chosen, report)


def _fill(quotas: list[Quota], maker: PairMaker, placed: Mapping[str, str], progress: bool) -> None:
    """Grow pairs until every quota is closed; the families in `placed` have their fold already."""
    with tqdm(total=sum(quota.wanted for quota in quotas), unit="pair", disable=not progress) as bar:
        while any(quota.is_open for quota in quotas):
            start, family = maker.start()
            fold = placed.get(family) or fold_of(family, SHARES)
            quota = pick_quota(quotas, fold, start.depth, maker.grower.rng)
            if quota is not None:
                pair = maker.make(start, family, quota.depth, quota.takes_numeric)
                quota.add(pair)
                bar.update(pair is not None)


def _balance(quotas: list[Quota], rng: np.random.Generator) -> tuple[dict[str, list[Pair]], int]:
    """The pairs that stay, by fold, and how many went."""
    made = [(quota.fold, pair) for quota in quotas for pair in quota.pairs]
    groups = [sum(pair.depth >= start for start in GROUP_STARTS) for _, pair in made]
    kept: dict[str, list[Pair]] = {fold: [] for fold in FOLDS}
    indices = balanced([(pair.true, pair.false) for _, pair in made], groups, rng)
    for i in indices:
        fold, pair = made[i]
        kept[fold].append(pair)
    return kept, len(made) - len(indices)


def _atoms(fold: str) -> Iterator[Pair]:
    leaves = [Expression.leaf(*leaf) for leaf in _CYCLES[fold]]
    for leaf, neighbour in zip(leaves, leaves[1:] + leaves[:1], strict=True):
        true, false = Equation.of(leaf, leaf), Equation.of(leaf, neighbour)
        yield Pair(true, false, 1, canonical_key(true), "atom", (judge(true), judge(false)))


def _within_plan(wanted: Mapping[int, int], kept: Iterable[Pair]) -> list[Pair]:
    """The first pairs of each depth, as many as planned, shallow ones first."""
    by_depth: dict[int, list[Pair]] = {depth: [] for depth in sorted(wanted)}
    for pair in kept:
        if len(by_depth[pair.depth]) < wanted[pair.depth]:
            by_depth[pair.depth].append(pair)
    return [pair for pairs in by_depth.values() for pair in pairs]


def _counts(chosen: Mapping[str, list[Pair]]) -> dict[str, dict[int, int]]:
    return {
        fold: {depth: 2 * sum(p.depth == depth for p in pairs) for depth in sorted({p.depth for p in pairs})}
        for fold, pairs in chosen.items()
    }


def _write(folder: Path, chosen: Mapping[str, list[Pair]], report: Report) -> Report:
    folder.mkdir(parents=True, exist_ok=True)
    for fold, pairs in chosen.items():
        report.files[fold] = folder / FILES[fold]
        write(report.files[fold], _examples(fold, pairs))
    return report


def _examples(fold: str, pairs: list[Pair]) -> Iterator[Example]:
    families: dict[str, str] = {}
    for number, pair in enumerate(pairs):
        name = f"{fold[:2]}{number}"
        family = families.setdefault(pair.family, f"{fold[:2]}f{len(families)}")
        for suffix, equation, label, verdict in zip("tf", (pair.true, pair.false), (1, 0), pair.certificates, strict=True):
            yield Example(equation, label, name + suffix, fold, name, family, _certificate(verdict, pair.axiom))


def _certificate(verdict: Verdict, axiom: str) -> dict:
    """What the verdict rests on, in few bytes; `witness` indexes the fixed points of `truth`."""
    digits = 15 if verdict.precision == "float64" else int(verdict.precision.split()[0])
    certificate = {"verdict": verdict.verdict, "points": verdict.points, "digits": digits}
    if verdict.witness is None:
        return {**certificate, "axiom": axiom}
    return {**certificate, "witness": verdict.witness.point}
