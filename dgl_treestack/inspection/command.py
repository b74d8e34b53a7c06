"""`treestack inspect`."""

import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path

from dgl_treestack import atomic, formats
from dgl_treestack.errors import ConfigurationError, DataError, VocabularyError
from dgl_treestack.formats import Example
from dgl_treestack.inspection import drawing
from dgl_treestack.inspection.summary import describe, summarise
from dgl_treestack.resources import find_data
from dgl_treestack.vocabulary import Vocabulary


def inspect_file(file: str, *, limit: int, chosen: str, output: Path | None, vocabulary: str, as_json: bool) -> None:
    """Print what a batch of a file's equations is made of; draw one equation when `output` is given.

    Raises DataError for an unreadable file, an unknown id or a leaf outside the vocabulary, ConfigurationError for a
    negative limit and a suffix other than .png and .svg.
    """
    if limit < 0:
        raise ConfigurationError(f"--limit {limit} is negative. Give the number of equations, 0 for all.")
    if output is not None and output.suffix not in (".png", ".svg"):
        raise ConfigurationError(f"A tree is drawn into a .png or .svg file, not {output.suffix!r}.")
    rows = Vocabulary.preset(vocabulary)
    batch, example = _read(file, limit, chosen)
    _check_leaves(batch, rows)
    summary = summarise([example.equation for example in batch], rows)
    print(json.dumps(dataclasses.asdict(summary)) if as_json else describe(summary))
    if output is not None:
        _draw(example, output)


def _read(file: str, limit: int, chosen: str) -> tuple[list[Example], Example]:
    """The first `limit` examples of a file, all when it is 0, and the one with the chosen id, the first when that is ''."""
    batch: list[Example] = []
    found = None
    for example in formats.read(find_data(file)):
        if not limit or len(batch) < limit:
            batch.append(example)
        if found is None and chosen in ("", example.id):
            found = example
        if found is not None and len(batch) == limit:
            break
    if not batch:
        raise DataError("There are no equations in the file.", file)
    if found is None:
        raise DataError(f"No equation has the id {chosen!r}. Leave --equation out for the first one.", file)
    return batch, found


def _check_leaves(examples: Sequence[Example], vocabulary: Vocabulary) -> None:
    for example in examples:
        for _, kind, text in example.equation.leaves():
            try:
                vocabulary.row(kind, text)
            except VocabularyError as error:
                raise DataError(str(error), example.source or None) from None


def _draw(example: Example, output: Path) -> None:
    figure, buffer = drawing.draw(example.equation), io.BytesIO()
    figure.savefig(buffer, format=output.suffix[1:], dpi=figure.dpi)
    atomic.write_bytes(output, buffer.getvalue())
