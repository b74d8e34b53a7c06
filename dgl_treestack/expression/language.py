"""Languages: signatures by name. `math` is a Python object, the others are TOML files, one per language.

    notation = "brackets"              # of texts: brackets, (MAX 2 9 (MIN 4 7)), or lists, [MAX 2 9 [MIN 4 7 ] ]
    root = "Pair"                      # only where an example is two trees: the operator that relates them
    classes = ["0", "1", "2"]          # the names of the labels, for classification

    [operators]                        # name = number of children, or "any"
    MAX = "any"
    NOT = 1

Leaves are words: any text. A file in `expression/languages` has the name of its language. An installed package adds a
signature by an entry point of the group `dgl_treestack.languages`.
"""

import importlib.metadata
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.expression.brackets import NOTATIONS
from dgl_treestack.expression.operators import MATH, UNKNOWN, WORDS, Operator, Signature

GROUP = "dgl_treestack.languages"  # of entry points
_KEYS = ("name", "notation", "root", "classes", "operators")


@cache
def languages() -> dict[str, Signature]:
    """Return the languages by name: `math`, the files of this package, and those of installed packages."""
    files = sorted((Path(__file__).parent / "languages").glob("*.toml"))
    of_packages = (entry_point.load() for entry_point in importlib.metadata.entry_points(group=GROUP))
    return {language.name: language for language in (MATH, *map(read, files), *of_packages)}


def find(name: str) -> Signature:
    """Return the language of a name or of a path that ends in `.toml`. Raises ConfigurationError."""
    if name == MATH.name:  # in the path of most commands, which need no file of another language
        return MATH
    if name.endswith(".toml"):
        return read(Path(name))
    if name not in languages():
        raise ConfigurationError(f"{unknown('language', name, languages())} Or give the path of a .toml file.")
    return languages()[name]


def read(path: Path) -> Signature:
    """Return the language of a TOML file. Raises ConfigurationError that names file, key and remedy."""
    try:
        return from_dict({"name": path.stem, **tomllib.loads(path.read_text())})
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def from_dict(data: dict[str, Any]) -> Signature:
    """Return the language that plain data describe. Raises ConfigurationError that names the key."""
    for key in data:
        if key not in _KEYS:
            raise ConfigurationError(unknown("key", key, _KEYS))
    operators = data.get("operators")
    if not isinstance(operators, dict) or not operators:
        raise ConfigurationError('The table [operators] is missing. Write a line per operator: MAX = 2, or MAX = "any".')
    table = tuple(_operator(name, arity) for name, arity in operators.items())
    root, notation, classes = data.get("root"), data.get("notation", "brackets"), data.get("classes", [])
    if notation not in NOTATIONS:
        raise ConfigurationError(unknown("notation", str(notation), NOTATIONS))
    if root is not None and operators.get(root) != 2:
        raise ConfigurationError(f"'root' is {root!r}; it must be one of the operators, with 2 children.")
    if root is not None and len(operators) == 1:
        raise ConfigurationError(f"There is no operator besides the root {root!r}. Add one.")
    if not isinstance(classes, list) or not all(isinstance(name, str) and name for name in classes):
        raise ConfigurationError(f'\'classes\' is {classes!r}; write a list of texts, such as ["0", "1"].')
    if UNKNOWN in classes:
        raise ConfigurationError(f"No class may be called {UNKNOWN!r}, which stands for an unknown label.")
    if len(set(classes)) < len(classes) or len(classes) == 1:
        raise ConfigurationError(f"'classes' is {classes!r}; at least two different names are needed.")
    return Signature(str(data["name"]), table, root, words=True, notation=notation, classes=tuple(classes))


def to_toml(language: Signature) -> str:
    """Return a language of words as TOML, which `read` reads back."""
    data: dict[str, Any] = {"name": language.name, "notation": language.notation}
    if language.root is not None:
        data["root"] = language.root
    operators = {operator.name: "any" if operator.arity is None else operator.arity for operator in language.operators}
    return tomli_w.dumps({**data, "classes": list(language.classes), "operators": operators})


def _operator(name: str, arity: object) -> Operator:
    if not name or name in WORDS or set(name) & set(' \t\n()[]"/:'):
        raise ConfigurationError(f"An operator cannot be called {name!r}: no spaces, brackets, quotation marks, '/' and ':'.")
    if arity == "any":
        return Operator(name, None)
    if type(arity) is not int or not 1 <= arity <= 1000:
        raise ConfigurationError(f"'operators.{name}' is {arity!r}; write its number of children, from 1 on, or \"any\".")
    return Operator(name, arity)
