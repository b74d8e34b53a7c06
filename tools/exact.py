"""What evaluation reaches without a network, at the points of the value signal: `python -m tools.exact data`.

The folder has the generated sets `paper` and `deep`. An equation is said to hold if its sides differ by at most 1e-6, relative,
at every point. Trusted: at points where complex128 is in no doubt; an equation without one is judged wrong. Ignoring doubt: at
points where both sides have any value. Writes `figures/large/exact/table.csv`.
"""

import sys
from pathlib import Path

import numpy as np

from dgl_treestack import atomic
from dgl_treestack.data import formats
from dgl_treestack.data.forest import Forest, columns
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.results import report
from dgl_treestack.truth.judgement import relative_gap
from dgl_treestack.truth.subtrees import DEFINED, values_at_points

OUTPUT = Path(__file__).parent.parent / "figures" / "large" / "exact" / "table.csv"
SETS = {"test 8-13": ("paper", (8, 13)), "test 8-19": ("deep", (8, 19))}  # as the columns of `beyond` are named
POINTS = 8
LARGEST_GAP = 1e-6  # a larger one refutes an equation


def answers(forest: Forest) -> dict[str, np.ndarray]:
    """Return (E,) whether equations are said to hold, trusted and ignoring doubt, and which of them have no trusted point."""
    nodes = columns(forest, forest.signature)
    ids = np.unique(nodes.subtree)
    sides = np.searchsorted(ids, nodes.subtree[nodes.children[forest.offsets[:-1], :2]])
    values = list(values_at_points(forest, range(POINTS)))
    number, status = (np.array([of_point[i] for of_point in values])[:, sides] for i in (0, 1))
    gap = relative_gap(number[..., 0], number[..., 1])
    trusted = (status == DEFINED).all(-1)
    has_point = np.isfinite(gap)
    differs = gap > LARGEST_GAP
    return {
        "trusted": ~(differs & trusted).any(0),
        "ignoring doubt": ~(differs & has_point).any(0),
        "no trusted point": ~trusted.any(0),
    }


def measure(path: Path, depths: tuple[int, int]) -> dict[str, float]:
    """Return the per cent of equations of some depths that are judged right, and how many have no trusted point."""
    low, high = depths
    examples = [example for example in formats.read(path) if low <= example.equation.depth <= high]
    labels = np.array([example.label for example in examples]) == 1
    of_rule = answers(Forest.build([example.equation for example in examples], Vocabulary.preset("canonical")))
    unknown = of_rule["no trusted point"]
    return {
        "exact evaluation, trusted": 100 * float(((of_rule["trusted"] == labels) & ~unknown).mean()),
        "exact evaluation, ignoring doubt": 100 * float((of_rule["ignoring doubt"] == labels).mean()),
        "no trusted point": 100 * float(unknown.mean()),
    }


def main(folder: Path) -> None:
    """Write the table of the sets that the folder has."""
    files = {title: (folder / name / "test.jsonl.gz", depths) for title, (name, depths) in SETS.items()}
    measured = {title: measure(path, depths) for title, (path, depths) in files.items() if path.exists()}
    empty = {"paper": None, "paper sd": None, "ours sd": None, "seeds": "-"}
    lines = [
        {"model": row, "measured": title, "ours": share, **empty}
        for title, of_set in measured.items()
        for row, share in of_set.items()
    ]
    atomic.write_text(OUTPUT, report.csv(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
