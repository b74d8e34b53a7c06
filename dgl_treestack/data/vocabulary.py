"""Vocabularies: which row of the embedding table a leaf reads.

Two presets. `released` is the table of the authors' code: 34 rows, where only `One` and `Rational 0` are unified with the
integers 1 and 0 (so `Half` and `Rational 1/2` differ). `canonical` has one row per value. In both, a number that has no row
goes through the number encoder, and a variable or symbol that has no row is an error.

A vocabulary of words, for signatures with leaves of any text, has the rule `words`: row 0 stands for all unknown leaves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

from dgl_treestack.errors import VocabularyError, unknown
from dgl_treestack.expression import LEAF_CLASSES, leaf_value

VARIABLES = tuple(f"var_{i}" for i in range(10))
# Letter -> the authors' name of the variable, in their order (they define the first four).
LETTERS = dict(zip("xyzwuvtabc", VARIABLES, strict=True))

MAX_NUMBER = 1e18  # for the number encoder: the square of a number must stay far below the largest float32
RULES = ("released", "canonical", "words")
NO_OPERATOR = -1  # `op` of a leaf
NO_TOKEN = -1  # in place of a row: `token` of an operator and of a leaf that the number encoder embeds
UNKNOWN = ""  # text of row 0 of a vocabulary of words, which no leaf has


@dataclass(frozen=True)
class Vocabulary:
    """Leaves in the order of the rows of an embedding table, and the rule by which leaves share a row.

    unify: the rule, `released`, `canonical` or `words`; see the module. leaves: one (leaf class, text) per row.

    >>> Vocabulary.preset("released").row("One", "1") == Vocabulary.preset("released").row("Integer", "1")
    True
    """

    unify: str
    leaves: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if self.unify not in RULES:
            raise VocabularyError(unknown("vocabulary rule", self.unify, RULES))

    @staticmethod
    def preset(name: str) -> "Vocabulary":
        """The vocabulary of that name. Raises VocabularyError for an unknown one."""
        if name not in PRESETS:
            raise VocabularyError(unknown("vocabulary", name, PRESETS))
        return PRESETS[name]

    @staticmethod
    def of_words(texts: Iterable[str]) -> "Vocabulary":
        """A vocabulary of these texts, sorted, after row 0 for all others."""
        return Vocabulary("words", tuple(("Word", text) for text in (UNKNOWN, *sorted(set(texts)))))

    def __len__(self) -> int:
        return len(self.leaves)

    def _key(self, kind: str, text: str) -> tuple[str, str] | None:
        """The key that all leaves of a row have in common, None for a leaf that is always encoded as a number."""
        if self.unify == "words":
            return kind, text
        if kind == "Symbol":
            return kind, LETTERS.get(text, text)
        if self.unify == "canonical":
            value = leaf_value(kind, text)
            return (kind, "") if value is None else ("value", str(value))
        if kind == "One" or (kind, text) == ("Rational", "0"):
            return "Integer", "1" if kind == "One" else "0"
        return None if kind == "Number" else (kind, LEAF_CLASSES[kind] or text)

    @cached_property
    def _rows(self) -> dict[tuple[str, str] | None, int]:
        # The first row of a key is read: in `released`, rows 25 and 32 (Rational 0 and One) never are.
        return {self._key(*leaf): i for i, leaf in reversed(list(enumerate(self.leaves)))}

    def row(self, kind: str, text: str) -> int | None:
        """The row of a leaf, or None when the number encoder embeds it. Raises VocabularyError when neither can."""
        if self.unify == "words":
            return self._rows.get(("Word", text), 0)
        key = self._key(kind, text)
        if key in self._rows and key is not None:
            return self._rows[key]
        value = leaf_value(kind, text)
        if value is not None and abs(value) <= MAX_NUMBER:
            return None
        if value is not None:
            fault = f"The number {text} is too large for the number encoder; the limit is {MAX_NUMBER:g}."
        elif kind == "Blank":
            fault = "A blank `_` has no embedding. Fill it before the expression goes to a model."
        elif kind == "Word":
            fault = "This vocabulary has no words. Build one from the words of your data: Vocabulary.of_words."
        else:
            names = [name for leaf_class, name in self.leaves if leaf_class == "Symbol"]
            variables = ", ".join([*(letter for letter, name in LETTERS.items() if name in names), *names]) or "none"
            fault = f"The vocabulary has no row for {kind} {text!r}. Variables: {variables}; rename yours or give the model "
            fault += "another vocabulary."
        raise VocabularyError(fault)

    def code(self, kind: str, text: str) -> tuple[int, float]:
        """The row of a leaf and 0; or -1, which is no row, and the value that the number encoder embeds.

        Raises VocabularyError when the leaf has neither.
        """
        row = self.row(kind, text)
        return (NO_TOKEN, float(leaf_value(kind, text) or 0)) if row is None else (row, 0.0)

    def to_dict(self) -> dict:
        """Plain data for a file; `from_dict` reads it back."""
        return {"unify": self.unify, "leaves": [list(leaf) for leaf in self.leaves]}

    @classmethod
    def from_dict(cls, data: dict) -> "Vocabulary":
        """The vocabulary that `to_dict` described. Raises VocabularyError for other data."""
        try:
            return cls(data["unify"], tuple((str(kind), str(text)) for kind, text in data["leaves"]))
        except (KeyError, TypeError, ValueError) as error:
            raise VocabularyError(f"Not a vocabulary: {error!r}. Expected keys `unify` and `leaves`.") from None


_COMMON = (*(("Symbol", name) for name in VARIABLES), *(("Integer", str(i)) for i in range(11)))
# The other leaves of a preset: class and text, or a class that has only one text
_RELEASED = "Integer:-2 Integer:-3 Rational:2/5 Rational:-1/2 Rational:0 Float:0.7 NegativeOne NaN Infinity Exp1 Pi One Half"
_CANONICAL = "NegativeOne Integer:-2 Integer:-3 Half Rational:-1/2 Rational:2/5 Float:0.7 Pi Exp1 Infinity"
PRESETS = {
    rule: Vocabulary(rule, (*_COMMON, *((kind, text or LEAF_CLASSES[kind] or "") for kind, _, text in parts)))
    for rule, parts in (
        ("released", map(str.partition, _RELEASED.split(), repeat(":"))),
        ("canonical", map(str.partition, _CANONICAL.split(), repeat(":"))),
    )
}
