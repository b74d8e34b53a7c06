"""`treestack inspect`."""

import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dgl_treestack import atomic
from dgl_treestack.data import formats, graph
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import ConfigurationError, DataError, VocabularyError
from dgl_treestack.inspection import drawing, network, outline, page, stack_drawing, summary, traces
from dgl_treestack.inspection.traces import Trace
from dgl_treestack.resources import find_data
from dgl_treestack.runs.run import Run


def inspect_file(file: str, *, limit: int, chosen: str, output: Path | None, vocabulary: str, as_json: bool) -> None:
    """Print what a batch of a file's equations is made of; draw or write one equation when `output` is given.

    Raises DataError for an unreadable file, an unknown id or a leaf outside the vocabulary, ConfigurationError for a
    negative limit and a suffix other than .png, .svg and .graphml.
    """
    check_options(limit, output)
    rows = Vocabulary.preset(vocabulary)
    batch, example = _read(file, limit, chosen)
    _check_leaves(batch, rows)
    counts = summary.summarise(graph.from_expressions([example.equation for example in batch], rows))
    print(json.dumps(dataclasses.asdict(counts)) if as_json else summary.text(counts))
    if output is None:
        return
    if output.suffix == network.SUFFIX:
        network.write_graphml(network.to_networkx(graph.from_expressions([example.equation], rows)), output)
    else:
        save(drawing.draw(example.equation), output)


def inspect_runs(
    file: str, runs: Sequence[Path], *, limit: int, chosen: str, output: Path | None, html: Path | None, as_json: bool
) -> None:
    """Print what models do inside an equation, draw the first of them, or write a page with all equations of a batch.

    Raises what `inspect_file` does, CheckpointError for a folder that is no run, ConfigurationError for one given twice.
    """
    check_options(limit, output)
    if output is not None and output.suffix == network.SUFFIX:
        raise ConfigurationError("What a model does is drawn into a .png or .svg file. For .graphml, leave --run out.")
    opened = _named(runs)
    batch, example = _read(file, limit, chosen)
    examples = batch if html is not None or not chosen else [example]
    if example not in examples:
        examples = [*examples, example]
    found = {name: traces.make(run, examples) for name, run in opened.items()}
    _check_trees(examples, found)
    shown = {name: own[examples.index(example)] for name, own in found.items()}
    if output is not None:
        name = next(iter(shown))
        save(stack_drawing.draw_trace(name, shown[name]), output)
    if html is not None:
        page.write(html, f"{Path(file).name}: {', '.join(found)}", examples, found)
    if as_json:
        print(json.dumps(_described(example, shown)))
        return
    if len(examples) > 1:
        print(outline.verdicts(found) + "\n")
    print(outline.outline(shown))


def check_options(limit: int, output: Path | None) -> None:
    """Raise ConfigurationError for a negative limit and for an output that is no picture and no GraphML."""
    if limit < 0:
        raise ConfigurationError(f"--limit {limit} is negative. Give the number of equations, 0 for all.")
    if output is not None and output.suffix not in (".png", ".svg", network.SUFFIX):
        raise ConfigurationError(
            f"A tree is drawn into a .png or .svg file or written into a {network.SUFFIX} file, not {output.suffix!r}."
        )


def _check_trees(examples: Sequence[Example], found: Mapping[str, Sequence[Trace]]) -> None:
    """Raise DataError where two models read different trees of one equation, as a verifier and a calculator do."""
    for example, *traces_of in zip(examples, *found.values(), strict=True):
        if len({trace.tree for trace in traces_of}) > 1:
            names = ", ".join(found)
            message = f"{names} do not read the same tree of it: their tasks differ. Look at them one at a time."
            raise DataError(message, example.source or None)


def _named(folders: Sequence[Path]) -> dict[str, Run]:
    """Runs by the names of their models, or of their folders where two have the same model."""
    runs = [Run.open(folder) for folder in folders]
    for names in ([run.config.model.name for run in runs], [run.folder.resolve().name for run in runs]):
        if len(set(names)) == len(names):
            return dict(zip(names, runs, strict=True))
    raise ConfigurationError("Two runs have the same name. Give each run once; rename a folder to compare equal names.")


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


def _described(example: Example, shown: Mapping[str, Trace]) -> dict[str, Any]:
    """One equation for programs: nodes in pre-order, and per model its record and its gates."""
    tree = next(iter(shown.values())).tree
    models = {
        name: {"record": trace.record, "sides": trace.sides(), "gates": page.gates_of(trace), "rows": page.rows_of(trace)}
        for name, trace in shown.items()
    }
    nodes = [{"label": drawing.label(tree, node), "children": tree.children(node)} for node in range(tree.size)]
    return {"id": example.id, "text": str(example.equation), "nodes": nodes, "models": models}


def save(figure: Figure, output: Path) -> None:
    """Write a picture in the format that the file's suffix names."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=output.suffix[1:], dpi=figure.dpi)
    atomic.write_bytes(output, buffer.getvalue())
