"""Every error a user can cause, as one tree.

    TreestackError            exit code 2 on the command line
    ├── ExpressionError       a text, prefix form or tree that is not a well-formed expression
    ├── GraphError            a DGL graph that is no well-formed batch of trees
    ├── VocabularyError       a leaf that no row of the vocabulary stands for
    ├── DataError             a file of equations, records or axioms that breaks its format
    ├── ConfigurationError    a run that is described wrongly
    ├── CheckpointError       weights or run folders that cannot be read
    ├── OutputError           a file that cannot be written: no space, no permission, a folder in its place
    └── DivergenceError       training produced a number that is not finite

A message states the value given, the rule it broke and the remedy.
"""

import difflib
from collections.abc import Iterable


class TreestackError(ValueError):
    """Base of every error that the input, not the program, is to blame for."""


class ExpressionError(TreestackError):
    """An expression that is not well formed. `column` (from 1) points into the text when there is one."""

    def __init__(self, message: str, text: str | None = None, column: int | None = None):
        self.text, self.column = text, column
        super().__init__(message + _pointer(text, column))


class GraphError(TreestackError):
    """A DGL graph that is no well-formed batch of trees; the message names the node."""


class VocabularyError(TreestackError):
    """A leaf that the vocabulary does not know."""


class DataError(TreestackError):
    """A file that breaks its format; the message starts with `file:line:`."""

    def __init__(self, message: str, path: object = None, line: int | None = None):
        self.path, self.line = path, line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + message)


class ConfigurationError(TreestackError):
    """A run described with a wrong key, value or name."""


class CheckpointError(TreestackError):
    """Weights or a run folder that cannot be read or do not fit."""


class OutputError(TreestackError):
    """A file that cannot be written."""


class DivergenceError(TreestackError):
    """The loss, a gradient or the validation loss is no longer a finite number."""


def _pointer(text: str | None, column: int | None, width: int = 60) -> str:
    """Two lines that show where in a text the error is, the text cut to `width` around it."""
    if text is None or column is None:
        return ""
    start = max(0, min(column - 1 - width // 2, len(text) - width))
    return f"\n  {text[start : start + width]}\n  {' ' * (column - 1 - start)}^ column {column}"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that is not in a list: the nearest known name first, then all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return f"Unknown {kind} {name!r}.{guess} Known: {', '.join(known)}."
