"""The errors that a user can cause: on the command line, any of them is exit code 2.

A message states the value given, the rule it broke and the remedy.
"""

import difflib
from collections.abc import Iterable

_WIDTH = 60  # characters of the text to show around an error
_LISTED = 60  # maximum number of known names in a message


class TreestackError(ValueError):
    """Base of all errors caused by the input rather than by the program."""


class ExpressionError(TreestackError):
    """An expression that is not well formed.

    text, column: the text that was read and the column (from 1) of the error in it, if known. The message then ends with two
    lines that show the text around the column.
    """

    def __init__(self, message: str, text: str | None = None, column: int | None = None):
        self.text, self.column = text, column
        if text is not None and column is not None:
            start = max(0, min(column - 1 - _WIDTH // 2, len(text) - _WIDTH))
            message += f"\n  {text[start : start + _WIDTH]}\n  {' ' * (column - 1 - start)}^ column {column}"
        super().__init__(message)


class GraphError(TreestackError):
    """A DGL graph that is not a well-formed batch of trees; the message names the node."""


class VocabularyError(TreestackError):
    """A leaf that has no row in the vocabulary."""


class DataError(TreestackError):
    """A file that breaks its format; the message starts with `file:line:`."""

    def __init__(self, message: str, path: object = None, line: int | None = None):
        self.path, self.line = path, line
        prefix = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(prefix + message)


class ConfigurationError(TreestackError):
    """A wrong key, value, name or option of a run or command."""


class CheckpointError(TreestackError):
    """Weights or a run folder that cannot be read or do not fit."""


class OutputError(TreestackError):
    """A file that cannot be written: no space, no permission, a folder in its place."""


class ProcessError(TreestackError):
    """Another process of a run over several processes has ended."""


class DivergenceError(TreestackError):
    """The training loss, a gradient or the validation loss is no longer finite."""


def unknown(kind: str, name: object, names: Iterable[str]) -> str:
    """Return the message for a name that is not among `names`: the nearest of them first, then all, or of very many a few.

    >>> unknown("cell", "tree_rn", ["tree_rnn", "tree_lstm"])
    "Unknown cell 'tree_rn'. Did you mean 'tree_rnn'? Known: tree_lstm, tree_rnn."
    """
    names = sorted(names)
    nearest = difflib.get_close_matches(str(name), names, n=1 if len(names) <= _LISTED else 3)
    guess = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
    few = names if len(names) <= _LISTED else [f"{len(names)} names, such as {names[0]}", *names[:: len(names) // 5][1:]]
    return f"Unknown {kind} {name!r}.{guess} Known: {', '.join(few)}."
