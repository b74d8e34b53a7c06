"""`treestack audit`."""

import json
from collections.abc import Sequence
from typing import Any

from dgl_treestack.audit import explanation, tables
from dgl_treestack.audit.leakage import Fit
from dgl_treestack.audit.report import Options, audit
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.resources import find_data


def choose(verdicts: bool, duplicates: bool, leakage: bool, together: bool, sample: int, jobs: int) -> Options:
    """The options of the command line as one value."""
    return Options(verdicts, duplicates, leakage, together, Fit(sample=sample, jobs=jobs))


def audit_files(names: Sequence[str], options: Options, *, as_json: bool, progress: bool) -> dict[str, Any]:
    """Audit files, print what was found and return it."""
    report = audit(names, options, progress)
    print(json.dumps(report, indent=1) if as_json else tables.describe(report))
    return report


def is_contradicted(report: dict[str, Any]) -> bool:
    """Whether an audit found a label that the numbers contradict."""
    return any(found["contradicted"] for found in report["sets"].values())


def explain_equation(names: Sequence[str], wanted: str, *, as_json: bool) -> int:
    """Print why an equation has its label, for every file that has the id. Returns 1 when the label is contradicted, else 0."""
    found = [explanation.explain(example) for example in _find(names, wanted)]
    print(json.dumps(found, indent=1) if as_json else "\n\n".join(map(explanation.describe, found)))
    return int(any(one["contradicted"] for one in found))


def _find(names: Sequence[str], wanted: str) -> list[Example]:
    if not names:
        raise ConfigurationError("Name at least one file, such as bundled:quickstart/train.")
    found, some = list[Example](), list[str]()
    for name in names:
        for example in formats.read(find_data(name)):
            if wanted in (example.id, example.source):
                found.append(example)
            elif len(some) < 3:
                some.append(example.id or example.source)
    if not found:
        ids = f"The first ids are {', '.join(map(repr, some))}." if some else "The file is empty."
        raise DataError(f"No equation has the id {wanted!r}. {ids}", names[0])
    return found
