"""`treestack languages`."""

from dgl_treestack.cli import Json, print_json
from dgl_treestack.expression import language as defined


def languages(json: Json = False) -> None:
    """List the languages of trees: operators with their number of children, and classes of labels."""
    table = sorted(defined.languages().items())
    if json:
        print_json(
            [
                {
                    "name": name,
                    "notation": language.notation,
                    "root": language.root,
                    "classes": language.classes,
                    "operators": {operator.name: operator.arity for operator in language.operators},
                }
                for name, language in table
            ]
        )
        return
    for name, language in table:
        shown = [f"{operator.word}/{operator.arity or 'any'}" for operator in language.operators]
        print(f"{name}  ({language.notation})\n  operators: {', '.join(shown)}")
        if language.classes:
            print(f"  classes: {', '.join(language.classes)}")
