"""The tables of rules: identities that hold, and deliberately false rules.

A table is a text file: `#` comments, `[section]` headings, one equation per line in infix notation.
"""

from dataclasses import dataclass
from pathlib import Path

from dgl_treestack.errors import DataError, ExpressionError
from dgl_treestack.expression import Equation

AXIOMS = Path(__file__).parent.parent / "resources" / "axioms.txt"
FALSE_RULES = AXIOMS.with_name("axioms_false.txt")


@dataclass(frozen=True)
class Axiom:
    """One line of a table. name: `section:n`, n counting from 1 within the section."""

    name: str
    section: str
    equation: Equation


def load_axioms(path: Path | None = None) -> tuple[Axiom, ...]:
    """Return the rules of a table, by default the identities of the package. Raises DataError with file and line."""
    path = path or AXIOMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot be read as UTF-8 text: {error}.", path) from None
    axioms: list[Axiom] = []
    first_line: dict[Equation, int] = {}
    section, count = "", 0
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if text.startswith("["):
            section, count = text.removeprefix("[").removesuffix("]").strip(), 0
            if text != f"[{section}]" or not section.isidentifier():
                raise DataError(f"{text!r} is not a section heading. Write [name].", path, number)
            continue
        if not section:
            raise DataError("An equation stands before the first [section]. Name its group.", path, number)
        try:
            equation, count = Equation.parse(text), count + 1
        except ExpressionError as error:
            raise DataError(str(error), path, number) from None
        if equation in first_line:
            raise DataError(f"{text!r} is already on line {first_line[equation]}. Drop one.", path, number)
        first_line[equation] = number
        axioms.append(Axiom(f"{section}:{count}", section, equation))
    return tuple(axioms)
