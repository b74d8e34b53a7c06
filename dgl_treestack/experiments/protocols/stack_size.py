"""Tree-SMU with stacks of different sizes."""

from dgl_treestack.experiments._protocol import Column, Protocol, Row, tested, validation

PROTOCOL = Protocol(
    "Stack size",
    "Arabshahi 2020, appendix: sizes of Table 5; the paper prints no accuracies",
    tuple(Row(f"Tree-SMU, {size} rows", "tree_smu", {}, {"model.settings.stack_size": size}) for size in (1, 2, 3, 7, 14)),
    (Column("validation", validation), Column("test 1-7", tested(1, 7)), Column("test 8-13", tested(8, 13))),
)
