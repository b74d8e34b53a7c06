"""`treestack audit`."""

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack import plots
from dgl_treestack.cli import Cpus, Json, OnCluster, print_json, where
from dgl_treestack.errors import DataError


def audit(
    files: Annotated[Positional[tuple[str, ...]], arg(help="Files of equations, ours or the authors', or bundled:...")],
    *,
    verdicts: Annotated[bool, arg(help="Judge every equation numerically.")] = True,
    duplicates: Annotated[bool, arg(help="Find duplicates, near duplicates, and overlap between files.")] = True,
    leakage: Annotated[bool, arg(help="Measure how well models that can do no mathematics predict labels.")] = True,
    together: Annotated[bool, arg(help="Audit all files as one set instead of each by itself.")] = False,
    sample: Annotated[int, arg(help="Equations per group of depths to measure leakage on, at most; 0 for all.")] = 20_000,
    jobs: Annotated[int, arg(help="Processes that judge equations, and threads that fit models.")] = 1,
    cluster: OnCluster = "",
    cpus_per_task: Cpus = 1.0,
    figure: Annotated[Path | None, arg(help="Also draw the audit; written as .svg and as .png.")] = None,
    explain: Annotated[str, arg(help="Id of an equation: only show its witness or derivation.")] = "",
    json: Json = False,
) -> int:
    """Judge labels, find duplicates, measure leakage of labels. Exit code 1 when a label is contradicted."""
    from dgl_treestack.audit import explanation, report
    from dgl_treestack.audit.leakage import Fit

    for file in files:
        if file.removesuffix(".gz").endswith((".tsv", ".txt")):
            raise DataError("`audit` judges equations, in .jsonl or .json files; trees of other languages it cannot.", file)
    if explain:
        explanations = [explanation.explain(example) for example in explanation.find(files, explain)]
        print_json(explanations) if json else print("\n\n".join(map(explanation.describe, explanations)))
        return int(any(line["contradicted"] for line in explanations))
    if figure:
        plots.check_output(figure)
    tasks, fit = where(jobs, cluster, cpus_per_task), Fit(sample=sample, jobs=jobs)
    parts_of_report = {"verdicts": verdicts, "duplicates": duplicates, "leakage": leakage, "together": together}
    audited = report.audit(files, **parts_of_report, fit=fit, jobs=tasks, progress=sys.stderr.isatty())
    print_json(audited) if json else print(report.describe(audited))
    for path in plots.draw("audit", audited, figure) if figure else ():
        print(path, file=sys.stderr if json else sys.stdout)
    return int(any(part["contradicted"] for part in audited["sets"].values()))
