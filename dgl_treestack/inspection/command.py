"""`treestack inspect`."""

import dataclasses
import io
import json
from pathlib import Path

from dgl_treestack import atomic, formats
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.formats import Example
from dgl_treestack.inspection import drawing
from dgl_treestack.inspection.summary import describe, summarise
from dgl_treestack.resources import find_data
from dgl_treestack.vocabulary import Vocabulary


def inspect_file(file: str, *, limit: int, chosen: str, output: Path | None, vocabulary: str, as_json: bool) -> None:
    """Print what a batch of a file's equations is made of; draw one equation when `output` is given.

    Raises DataError for an unreadable file or an unknown id, ConfigurationError for a suffix other than .png and .svg.
    """
    examples: list[Example] = []
    for example in formats.read(find_data(file)):
        if limit and len(examples) >= limit and not (chosen and all(e.id != chosen for e in examples)):
            break
        examples.append(example)
    if not examples:
        raise DataError("There are no equations in the file.", file)
    summary = summarise([example.equation for example in examples[: limit or None]], Vocabulary.preset(vocabulary))
    print(json.dumps(dataclasses.asdict(summary)) if as_json else describe(summary))
    if output is not None:
        _draw(_choose(examples, chosen, file), output)


def _choose(examples: list[Example], chosen: str, file: str) -> Example:
    for example in examples:
        if not chosen or example.id == chosen:
            return example
    raise DataError(f"No equation has the id {chosen!r}.", file)


def _draw(example: Example, output: Path) -> None:
    if output.suffix not in (".png", ".svg"):
        raise ConfigurationError(f"A tree is drawn into a .png or .svg file, not {output.suffix!r}.")
    buffer = io.BytesIO()
    drawing.draw(example.equation).savefig(buffer, format=output.suffix[1:], dpi=150)
    atomic.write_bytes(output, buffer.getvalue())
