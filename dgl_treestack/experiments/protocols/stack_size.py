"""Tree-SMU with stacks of different sizes: accuracy, rows in use, and accuracy when rows or actions are taken away."""

from dgl_treestack.experiments._protocol import VALIDATION, Column, Protocol, Row
from dgl_treestack.results.metrics import lost, mean, percent

DEPTHS = range(3, 14)
SIZES = (1, 2, 3, 5, 7, 14)
LABELS = {size: f"Tree-SMU, {size} row{'s' if size > 1 else ''}" for size in SIZES}
ROWS_IN_USE = [f"rows at depth {depth}" for depth in DEPTHS]
# Size of the stack -> rows in use by depth.
PAPER = {
    1: (0.05, 0.19, 0.41, 0.63, 0.80, 0.89, 0.89, 0.91, 0.97, 0.89, 0.82),
    2: (0.05, 0.31, 0.74, 1.16, 1.45, 1.63, 1.69, 1.66, 1.77, 1.73, 1.54),
    3: (0.05, 0.31, 0.93, 1.55, 1.97, 2.18, 2.32, 2.23, 2.35, 2.39, 2.13),
    7: (0.05, 0.31, 0.93, 1.73, 2.47, 2.82, 3.21, 3.00, 3.14, 3.51, 3.31),
    14: (0.05, 0.31, 0.93, 1.73, 2.47, 2.82, 3.21, 3.05, 3.23, 3.76, 3.53),
}

PROTOCOL = Protocol(
    "Stack size and stack usage",
    "Arabshahi 2020, Table 5",
    tuple(
        Row(
            LABELS[size],
            "tree_smu",
            {title: (rows, None) for title, rows in zip(ROWS_IN_USE, PAPER.get(size, ()), strict=False)},
            {"model.settings.stack_size": size},
            seeds=None if size in (2, 5) else 3,  # of Tree-SMU and of the figure of rows kept
        )
        for size in SIZES
    ),
    (
        VALIDATION,
        Column("test 1-7", depths=(1, 7)),
        Column("test 8-13", depths=(8, 13)),
        *(Column(title, mean("usage"), "usage", (depth, depth)) for title, depth in zip(ROWS_IN_USE, DEPTHS, strict=True)),
        Column("min(height, rows), depth 7", mean("full"), "usage", (7, 7)),
        Column("min(height, rows), depth 13", mean("full"), "usage", (13, 13)),
        Column("rows at the sides, depth 3", mean("top"), "usage", (3, 3)),
        Column("rows at the sides, depth 7", mean("top"), "usage", (7, 7)),
        Column("rows at the sides, depth 13", mean("top"), "usage", (13, 13)),
        *(Column(f"8-13, rows kept: {rows}", percent(f"rows {rows}"), "less stack", (8, 13)) for rows in range(6)),
        *(
            Column(f"8-13 without {action}", percent(f"without {action}"), "less stack", (8, 13))
            for action in ("push", "pop", "noop")
        ),
        Column("points lost with the first row alone", lost("rows 1"), "less stack", (8, 13)),
        *(
            Column(f"points lost without {action}", lost(f"without {action}"), "less stack", (8, 13))
            for action in ("pop", "noop")
        ),
    ),
    extras=("usage", "less stack"),
    pairs=(
        *((LABELS[size], LABELS[1]) for size in SIZES[1:]),
        (LABELS[5], LABELS[2]),
    ),
    figures={"depth": (), "usage": (), "kept": ()},
    note="Rows in use: those whose norm is above 0.001, on validation equations; the paper does not say over which nodes it "
    "averages: here, over the operators of both sides. Min(height, rows) is the mean over the same nodes of the smaller of a "
    "node's height and the rows of its stack, which no model has a part in: what a stack holds if every node pushes. With one "
    "row it is 1. With rows kept: accuracy of the trained model when all rows but the top ones are emptied after every node; "
    "without an action: when its gate is zero and the others grow in proportion; with no row and without push the answer is "
    "constant by construction. An output depends on row n only from height "
    "2n - 1, because n - 1 pops bring the row to the top: training at depths 1-7 is the same to the last bit with five, seven "
    "and fourteen rows, and so are tests to depth 13 with seven and fourteen. The paper prints no accuracies; it says that "
    "two rows are best. Its table leaves out four and five rows, which its search has",
    unit="Per cent, and rows of the stack",
)
