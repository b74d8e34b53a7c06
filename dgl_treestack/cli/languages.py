"""`treestack languages`."""

from typing import Any

from dgl_treestack.cli import Json, print_json


def languages(json: Json = False) -> None:
    """List the languages of trees: operators with their number of children, and classes of labels."""
    from dgl_treestack.expression.language import languages as table

    if json:
        rows: list[dict[str, Any]] = []
        for name, language in sorted(table().items()):
            operators = {operator.name: operator.arity for operator in language.operators}
            described = {"notation": language.notation, "root": language.root, "classes": language.classes}
            rows.append({"name": name, **described, "operators": operators})
        print_json(rows)
        return
    for name, language in sorted(table().items()):
        shown = [f"{operator.word}/{operator.arity or 'any'}" for operator in language.operators]
        print(f"{name}  ({language.notation})\n  operators: {', '.join(shown)}")
        if language.classes:
            print(f"  classes: {', '.join(language.classes)}")
