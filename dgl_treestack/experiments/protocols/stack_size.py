"""Tree-SMU with stacks of different sizes: accuracy, and how many rows are in use."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, used, validation

DEPTHS = range(3, 14)
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
            f"Tree-SMU, {size} rows",
            "tree_smu",
            {title: (rows, None) for title, rows in zip(ROWS_IN_USE, rows_by_depth, strict=True)},
            {"model.settings.stack_size": size},
        )
        for size, rows_by_depth in PAPER.items()
    ),
    (
        Column("validation", validation),
        Column("test 1-7", tested(1, 7)),
        Column("test 8-13", tested(8, 13)),
        *(Column(title, used(depth, "usage")) for title, depth in zip(ROWS_IN_USE, DEPTHS, strict=True)),
        Column("rows at the sides, depth 7", used(7, "top")),
        Column("rows at the sides, depth 13", used(13, "top")),
    ),
    extras=("usage",),
    figures=("depth", "usage"),
    note="Rows whose norm is above 0.001, on validation equations. The paper prints no accuracies, and does not say over which "
    "nodes it averages: here, over the operators of both sides",
    unit="Per cent, and rows of the stack",
)
