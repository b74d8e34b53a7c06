"""Shared by the campaigns."""

import random
from collections.abc import Callable
from pathlib import Path

from dgl_treestack.data import formats
from dgl_treestack.expression import Expression, language

Attack = Callable[[random.Random], str]
ACCEPTED = "accepted"
EQUATIONS = 60  # of the small run and the small files
LANGUAGES = Path(language.__file__).parent / "languages"


def small_examples() -> list[formats.Example]:
    """Return the first equations of the bundled training set that have at most depth 4."""
    examples = formats.read_examples(["bundled:quickstart/train"])
    return [example for example in examples if example.equation.depth <= 4][:EQUATIONS]


def is_same(left: Expression, right: Expression) -> bool:
    return (left.names, left.texts, left.arities) == (right.names, right.texts, right.arities)
