"""`treestack languages`."""

from dgl_treestack.cli import Json, print_json
from dgl_treestack.expression import language as defined


def languages(json: Json = False) -> None:
    """List the languages of trees: operators with their number of children, and classes of labels."""
    table = sorted(defined.languages().items())
    if json:
        rows = []
        for name, language in table:
            operators = {operator.name: operator.arity for operator in language.operators}
            properties = {key: getattr(language, key) for key in ("notation", "root", "classes")}
            rows.append({"name": name, **properties, "operators": operators})
        print_json(rows)
        return
    for name, language in table:
        shown = [f"{operator.word}/{operator.arity or 'any'}" for operator in language.operators]
        print(f"{name}  ({language.notation})\n  operators: {', '.join(shown)}")
        if language.classes:
            print(f"  classes: {', '.join(language.classes)}")
