"""`treestack cells`."""

from dgl_treestack.cli import Json, print_json


def cells(json: Json = False) -> None:
    """List every model name with its paper, equations and size."""
    from dgl_treestack.model.table import rows, text

    print_json(rows()) if json else print(text(rows()))
