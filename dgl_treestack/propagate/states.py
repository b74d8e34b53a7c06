"""Check of a cell's result."""

from dgl_treestack.cells import Cell, State


def check_state(state: State, cell: Cell, count: int) -> None:
    """Raise RuntimeError unless the state of `count` nodes has the shapes of the cell's fields."""
    for name, shape in cell.fields.items():
        if state[name].shape != (count, *shape):
            raise RuntimeError(
                f"{type(cell).__name__} returned {name!r} of shape {tuple(state[name].shape)}; "
                f"its fields promise {(count, *shape)} = (nodes, {', '.join(map(str, shape))})."
            )
