"""`treestack generate` and `treestack audit`."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from dgl_treestack import formats
from dgl_treestack.errors import ConfigurationError, DataError, ExpressionError
from dgl_treestack.formats import Example
from dgl_treestack.generate import quickstart
from dgl_treestack.generate.audit import leakage
from dgl_treestack.resources import find_data
from dgl_treestack.truth import judge

VERDICTS = ("holds", "refuted", "conditional", "undefined")
EXPECTED = {1: "holds", 0: "refuted"}


def generate_preset(output_dir: Path, seed: int, progress: bool) -> None:
    """Make the quickstart files and print what was made and what was dropped."""
    if seed < 0:
        raise ConfigurationError(f"The seed is a whole number from 0 on; found {seed}.")
    report = quickstart.generate(output_dir, seed, progress)
    for fold, counts in report.counts.items():
        cells = "  ".join(f"{depth}:{count}" for depth, count in counts.items())
        print(f"{report.files[fold]}: {sum(counts.values())} equations; by depth {cells}")
    print("attempts: " + ", ".join(f"{count} {reason}" for reason, count in report.dropped.items()))


def audit_files(names: Sequence[str], *, as_json: bool, progress: bool) -> int:
    """Judge every label and measure leakage, per file. Returns 1 when a label is contradicted, else 0."""
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    found = {name: audit(list(formats.read(find_data(name))), name, progress) for name in names}
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        print("\n\n".join(describe(name, result) for name, result in found.items()))
    return int(any(result["wrong"] for result in found.values()))


def audit(examples: Sequence[Example], name: str, progress: bool = False) -> dict:
    """Verdicts by label and depth, ids whose label is contradicted, and leakage where there are labels of both kinds."""
    if not examples:
        raise DataError("There are no equations in the file.", name)
    counts: Counter[tuple[int, str, str]] = Counter()
    wrong = []
    for example in tqdm(examples, desc=name, disable=not progress, leave=False):
        try:
            verdict = judge(example.equation).verdict
        except ExpressionError as error:
            raise DataError(str(error), example.source or name) from None
        counts[example.equation.depth, str(example.label), verdict] += 1
        if example.label is not None and {verdict, EXPECTED[example.label]} == {"holds", "refuted"}:
            wrong.append(example.id)
    rows = [
        {"depth": depth, "label": label, **{verdict: counts[depth, label, verdict] for verdict in VERDICTS}}
        for depth, label in sorted({(depth, label) for depth, label, _ in counts})
    ]
    both = {0, 1} <= {example.label for example in examples}
    return {"equations": len(examples), "verdicts": rows, "wrong": wrong, "leakage": leakage(examples) if both else {}}


def describe(name: str, result: dict) -> str:
    """An audit as text."""
    lines = [f"{name}: {result['equations']} equations", f"{'depth':>6}{'label':>7}" + "".join(f"{v:>13}" for v in VERDICTS)]
    for row in result["verdicts"]:
        lines.append(f"{row['depth']:>6}{row['label']:>7}" + "".join(f"{row[verdict]:>13}" for verdict in VERDICTS))
    if result["wrong"]:
        lines.append(f"{len(result['wrong'])} labels are contradicted: {', '.join(result['wrong'][:10])}")
    for baseline, accuracies in result["leakage"].items():
        lines.append(f"{baseline:<22}" + "  ".join(f"{group} {value:.1f} %" for group, value in accuracies.items()))
    return "\n".join(lines)
