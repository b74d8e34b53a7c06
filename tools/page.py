"""Write paragraphs of a page from the tables of experiments: `python -m tools.page figures/day docs/results.md`.

What stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is replaced by the comparisons of the experiment NAME, so that
no sentence says more than its numbers.
"""

import csv
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from dgl_treestack import atomic
from dgl_treestack.errors import DataError
from dgl_treestack.experiments.tables import PAIRS

NOISE = 0.05  # a difference with a larger corrected p-value, over seeds or over equations, is within noise
_BLOCK = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def update(page: Path, folder: Path) -> None:
    """Write the paragraphs of a page again.

    folder: the folder of experiments, which has `NAME/pairs.csv` for every NAME of the page. Raises DataError for a page
    without paragraphs, and for a file that is missing or has other columns.
    """
    try:
        text = page.read_text()
    except OSError as error:
        raise DataError(f"Cannot be read: {error.strerror}.", page) from None
    count = len(_BLOCK.findall(text))
    if not count or count != text.count("<!-- begin"):
        raise DataError(
            "Results are written between <!-- begin NAME --> and <!-- end NAME -->; it has no such pair, or half of one.", page
        )
    atomic.write_text(page, _BLOCK.sub(lambda match: f"{match[1]}{_paragraph(folder / match[2] / PAIRS)}{match[3]}", text))


def _paragraph(file: Path) -> str:
    """Return the comparisons of a file of pairs: a list of sentences for every set of examples and number of seeds."""
    try:
        with file.open(newline="") as lines:
            sentences_of: dict[str, list[str]] = {}
            for line in csv.DictReader(lines):
                sentences_of.setdefault(_heading(line), []).append(_sentence(line))
            return "\n".join("\n- ".join([f"{heading}\n", *sentences]) + "\n" for heading, sentences in sentences_of.items())
    except OSError as error:
        remedy = f"Make it with `treestack reproduce {file.parent.name}`."
        raise DataError(f"Cannot be read: {error.strerror}. {remedy}", file) from None
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"Not a file of pairs ({error!r}). Make it again with `treestack reproduce`.", file) from None


def _heading(line: Mapping[str, str]) -> str:
    """Return what a comparison was made on."""
    records, seeds = f"{int(line['records']):,}", int(line["seeds"])
    families = "" if line["permuted"] == f"{records} records" else f", {line['permuted']}"
    examples = f"depths {line['depths']} of `{line['set']}` ({records} {line['unit']}{families})"
    return f"On {examples}, {seeds} seed{'s' if seeds != 1 else ''}, p-values after Holm's correction:"


def _sentence(line: Mapping[str, str]) -> str:
    """Return a comparison as a sentence: the difference, its interval and p-values, and whether it is within noise."""
    points = float(line["points"])
    direction = "ahead of" if points >= 0 else "behind"
    size = f"less than 0.05 points {direction}" if abs(points) < 0.05 else f"{abs(points):.1f} points {direction}"
    difference = f"{line['first']} is {size} {line['second']}"
    if line["paper"]:
        difference += f", in the paper {abs(float(line['paper'])):.2f} {'ahead' if float(line['paper']) >= 0 else 'behind'}"
    of_equations = float(line["Holm, equations"])
    p_values = f"p {of_equations:.2g} over {line['unit']}"
    is_noise = of_equations > NOISE
    if line["interval"]:
        of_seeds = float(line["Holm, seeds"])
        p_values = f"95 % interval {line['interval']}; {p_values}, {of_seeds:.2g} over seeds"
        is_noise |= of_seeds > NOISE
    else:
        p_values += ", not tested over seeds"
    return f"{difference} ({p_values}){'; within noise' if is_noise else ''}."


if __name__ == "__main__":
    update(Path(sys.argv[2]), Path(sys.argv[1]))
