"""Languages: signatures by name. `math` is a Python object, the others are TOML files, one per language.

    notation = "brackets"              # of texts, see below
    root = "Pair"                      # only where an example is two trees: the operator that relates them
    classes = ["0", "1", "2"]          # the names of the labels, for classification; "numbers" for regression

    [operators]                        # name = number of children, or "any", or a list: weights are split by the number
    MAX = "any"
    MED = [2, 3, 4, 5]
    NOT = 1

Notations: `brackets`, (MAX 2 9 (MIN 4 7)); `lists`, [MAX 2 9 [MIN 4 7 ] ]; `plain`, ( ( MAX 2 ) 9 ); `labelled`, as in
treebanks, (3 (2 It) (4 works)). Classes may have other names in files, and labels of files may count as unknown:

    [classes]
    negative = ["0", "1"]
    positive = ["3", "4"]
    "-" = ["2"]

Leaves are words: any text. A file in `expression/languages` has the name of its language. An installed package adds a
signature by an entry point of the group `dgl_treestack.languages`, a program by `register_language`.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.expression.notations import WITH_OPERATORS
from dgl_treestack.expression.operators import MATH, UNKNOWN, WITHOUT_OPERATORS, WORDS, Label, Operator, Signature
from dgl_treestack.plain_data import read_toml
from dgl_treestack.resources import Registry

NOTATIONS = (*WITH_OPERATORS, *WITHOUT_OPERATORS)
_KEYS = ("name", "notation", "root", "classes", "operators")


def _by_name(_: str, language: Any) -> dict[str, Signature]:
    """Return a language by its name. Raises ConfigurationError unless its notation, root and operators can be."""
    fault = ""
    if not isinstance(language, Signature):
        fault = f"The language is no dgl_treestack.Signature: {language!r}."
    elif language.notation not in (*NOTATIONS, "infix", "prefix"):
        fault = unknown("notation", str(language.notation), (*NOTATIONS, "prefix"))
    elif language.root is not None and (language.root not in language or language[language.root].arity != 2):
        fault = f"The root {language.root!r} must be one of the operators, with 2 children."
    else:
        for name, arity in ((operator.name, operator.arity) for operator in language.operators):
            if arity is not None and (type(arity) is not int or arity < 1):
                fault = f"{name!r} has {arity!r} children; give a number from 1 on, or None for any."
    if fault:
        raise ConfigurationError(fault)
    return {language.name: language}


def register_language(language: Signature) -> Signature:
    """Add a language that a program defines, under its name, in this process.

    Raises ConfigurationError when another one has the name, and for a notation, root or number of children that cannot be.
    """
    for name in _by_name("", language):
        registry.register(name, language)
    return language


def find(name: str) -> Signature:
    """Return the language of a name or of a path that ends in `.toml`. Raises ConfigurationError."""
    if name.endswith(".toml"):
        return read(Path(name))
    language = registry.find(name)
    if language is None:
        raise ConfigurationError(f"{unknown('language', name, languages())} Or give the path of a .toml file.")
    return language


def read(path: Path) -> Signature:
    """Return the language of a TOML file. Raises ConfigurationError that names file, key and remedy."""
    return read_toml(path, lambda data: from_dict({"name": path.stem, **data}))


registry = Registry("language", (Path(__file__).parent / "languages").glob("*.toml"), read, _by_name, "dgl_treestack.languages")
registry.registered[MATH.name] = MATH
languages = registry.table


def from_dict(data: dict[str, Any]) -> Signature:
    """Return the language that plain data describe. Raises ConfigurationError that names the key."""
    classes = data.get("classes", [])
    for fault in _faults(data):
        raise ConfigurationError(fault)
    operators: list[Operator] = []
    for name, arity in data["operators"].items():
        if isinstance(arity, list):
            operators += [Operator(f"{name}/{count}", count) for count in arity]
        else:
            operators.append(Operator(name, None if arity == "any" else arity))
    labels_of_class = classes.items() if isinstance(classes, dict) else ()
    return Signature(
        str(data["name"]),
        tuple(operators),
        data.get("root"),
        words=True,
        notation=data.get("notation", "brackets"),
        classes=tuple(name for name in classes if name != UNKNOWN) if classes != "numbers" else (),
        class_of_label=tuple((label, name) for name, labels in labels_of_class for label in labels if label != name),
        numeric=classes == "numbers",
    )


def _faults(data: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong in plain data; only the first fault counts."""
    yield from (unknown("key", key, _KEYS) for key in data if key not in _KEYS)
    operators: Any = data.get("operators")
    root, notation = data.get("root"), data.get("notation", "brackets")
    if not isinstance(operators, dict) or not operators:
        yield 'The table [operators] is missing. Write a line per operator: MAX = 2, or MAX = "any".'
    all_counts: list[object] = []
    for name, arity in operators.items():
        counts = [None] if arity == "any" else arity if isinstance(arity, list) else [arity]
        all_counts += counts if name != root else []
        if not name or name in WORDS or set(name) & set(' \t\n()[]"/:.'):
            yield f"An operator cannot be called {name!r}: no spaces, brackets, quotation marks, '/', ':', '.'."
        if not counts or (arity != "any" and any(type(count) is not int or not 1 <= count <= 1000 for count in counts)):
            remedy = 'write its number of children, from 1 on, a list of such numbers, or "any".'
            yield f"'operators.{name}' is {arity!r}; {remedy}"
        elif len(set(counts)) < len(counts):
            yield f"'operators.{name}' is {arity!r}, which has a number twice."
    if notation not in NOTATIONS:
        yield unknown("notation", str(notation), NOTATIONS)
    elif notation in WITHOUT_OPERATORS and len(set(all_counts)) < len(all_counts):
        yield f"In the notation {notation!r} a number of children can have one operator only."
    if root is not None and (not isinstance(root, str) or operators.get(root) != 2):
        yield f"'root' is {root!r}; it must be one of the operators, with 2 children."
    elif root is not None and len(operators) == 1:
        yield f"There is no operator besides the root {root!r}. Add one."
    entry: Any = data.get("classes", [])
    labels_of_class = entry if isinstance(entry, dict) else {}
    classes = [name for name in labels_of_class if name != UNKNOWN] if labels_of_class else [] if entry == "numbers" else entry
    if not isinstance(classes, list) or not all(isinstance(name, str) and name.isprintable() and name for name in classes):
        yield f'\'classes\' is {entry!r}; write a list of texts, such as ["0", "1"], or "numbers".'
    if UNKNOWN in classes:
        yield f"No class may be called {UNKNOWN!r}, which stands for an unknown label."
    if len(set(classes)) < len(classes) or len(classes) == 1 or (labels_of_class and not classes):
        yield f"'classes' is {classes!r}; at least two different names are needed."
    names = list(classes)  # of classes, and labels with another class
    for name, labels in labels_of_class.items():
        if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
            yield f'\'classes.{name}\' is {labels!r}; write a list of labels, such as ["0", "1"].'
        if UNKNOWN in labels and name != UNKNOWN:
            yield f"'classes.{name}' has the label {UNKNOWN!r}, which stands for an unknown label."
        names += [label for label in labels if label != name]
    if len(set(names)) < len(names):
        yield f"'classes' is {entry!r}, where a label has two classes, or is the name of another class."


def label_of(value: object, language: Signature) -> Label:
    """Return the label of a tree from a text or number of a file: a class, a number, 0 or 1; None if unknown.

    Raises DataError.
    """
    text, is_switch = str(value), isinstance(value, bool)
    if text == UNKNOWN:
        return None
    if language.numeric:
        with contextlib.suppress(ValueError):
            if not is_switch and math.isfinite(number := float(text)):
                return number
        fault = f"The label {text!r} is no finite number, as the language {language.name!r} has them."
    elif language.classes:
        label = dict(language.class_of_label).get(text, text)
        if label in (*language.classes, UNKNOWN) and not is_switch:
            return None if label == UNKNOWN else label
        names = {*language.classes, *(other for other, _ in language.class_of_label)}
        fault = unknown(f"label of the language {language.name!r}:", text, names)
    elif text in ("0", "1"):
        return int(text)
    else:
        fault = f"'label' is {value}; write 1 for correct, 0 for incorrect, null for unknown."
    raise DataError(fault)


def to_toml(language: Signature) -> str:
    """Return a language of words as TOML, which `read` reads back."""
    data: dict[str, Any] = {"name": language.name, "notation": language.notation}
    if language.root is not None:
        data["root"] = language.root
    data["classes"] = "numbers" if language.numeric else list(language.classes)
    if language.class_of_label:
        data["classes"] = {name: [] for name in language.classes}
        for label, name in language.class_of_label:
            data["classes"].setdefault(name, []).append(label)
    operators: dict[str, Any] = {}
    for operator in language.operators:
        if operator.name == operator.word:
            operators[operator.word] = "any" if operator.arity is None else operator.arity
        else:
            operators.setdefault(operator.word, []).append(operator.arity)
    return tomli_w.dumps({**data, "operators": operators})
