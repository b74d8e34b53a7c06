"""`treestack inspect`: of a file of equations, of what models do inside them, or of saved DGL graphs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Json, print_json

if TYPE_CHECKING:
    from dgl_treestack.data.formats import Example
    from dgl_treestack.inspection.traces import Trace
    from dgl_treestack.runs.run import Run


def inspect(
    file: Annotated[
        Positional[str], arg(help="A file of equations, bundled:quickstart/train and the like, or saved DGL graphs (.bin).")
    ],
    *,
    limit: Annotated[int, arg(help="Equations in the batch, from the start of the file; 0 for all.")] = 256,
    equation: Annotated[
        str, arg(help="Id of the equation to draw, in a .bin file the number of the tree; the first one otherwise.")
    ] = "",
    run: Annotated[tuple[Path, ...], arg(help="Run folders whose models are looked into, the first two compared.")] = (),
    output: Annotated[Path | None, arg(help="Draw one equation as a tree (.png, .svg), or write it (.graphml).")] = None,
    html: Annotated[Path | None, arg(help="With --run: write a page to walk through all equations of the batch.")] = None,
    vocabulary: Annotated[str, arg(help="canonical or released; without --run.")] = "canonical",
    json: Json = False,
) -> None:
    """Show what a batch of equations is made of, or with --run what models do inside them: actions, stacks, verdicts.

    Of saved DGL graphs, also the nodes of one tree with what they carry.
    """
    from dgl_treestack.errors import ConfigurationError

    if limit < 0:
        raise ConfigurationError(f"--limit {limit} is negative. Give the number of equations, 0 for all.")
    if output is not None and output.suffix not in (".png", ".svg", ".graphml"):
        raise ConfigurationError(
            f"A tree is drawn into a .png or .svg file or written into a .graphml file, not {output.suffix!r}."
        )
    if file.endswith(".bin"):
        if run or html:
            raise ConfigurationError("--run and --html look into equations, not into saved graphs. Give a file of equations.")
        _inspect_graphs(file, limit, equation, output, vocabulary, as_json=json)
    elif run:
        _inspect_runs(file, run, limit, equation, output, html, as_json=json)
    elif html:
        raise ConfigurationError("A page shows what models do. Name their run folders with --run.")
    else:
        _inspect_file(file, limit, equation, output, vocabulary, as_json=json)


def _inspect_file(file: str, limit: int, chosen: str, output: Path | None, vocabulary: str, *, as_json: bool) -> None:
    """Print what a batch of a file's equations is made of; draw or write one equation when `output` is given."""
    from dgl_treestack.data import graph
    from dgl_treestack.data.vocabulary import Vocabulary
    from dgl_treestack.errors import DataError, VocabularyError
    from dgl_treestack.inspection import drawing, network, summary

    rows = Vocabulary.preset(vocabulary)
    examples, example = _read(file, limit, chosen)
    for read in examples:
        for _, kind, text in read.equation.leaves():
            try:
                rows.row(kind, text)
            except VocabularyError as error:
                raise DataError(str(error), read.source or None) from None
    counts = summary.summarise(graph.from_expressions([read.equation for read in examples], rows))
    print_json(dataclasses.asdict(counts)) if as_json else print(summary.text(counts))
    if output is None:
        return
    if output.suffix == network.SUFFIX:
        network.write_graphml(network.to_networkx(graph.from_expressions([example.equation], rows)), output)
    else:
        drawing.save(drawing.draw(example.equation), output)


def _inspect_runs(
    file: str, folders: Sequence[Path], limit: int, chosen: str, output: Path | None, html: Path | None, *, as_json: bool
) -> None:
    """Print what models do inside an equation, draw the first of them, or write a page with all equations of a batch."""
    from dgl_treestack.errors import ConfigurationError, DataError
    from dgl_treestack.inspection import drawing, outline, page, stack_drawing, traces

    if output is not None and output.suffix == ".graphml":
        raise ConfigurationError("What a model does is drawn into a .png or .svg file. For .graphml, leave --run out.")
    runs = _named(folders)
    examples, example = _read(file, limit, chosen)
    if chosen and html is None:
        examples = [example]
    elif example not in examples:
        examples = [*examples, example]
    traces_of_run = {name: traces.make(run, examples) for name, run in runs.items()}
    for i, read in enumerate(examples):
        if len({traces_of_batch[i].tree for traces_of_batch in traces_of_run.values()}) > 1:
            message = f"{', '.join(runs)} do not read the same tree of it: their tasks differ. Look at them one at a time."
            raise DataError(message, read.source or None)
    shown = {name: traces_of_batch[examples.index(example)] for name, traces_of_batch in traces_of_run.items()}
    if output is not None:
        name = next(iter(shown))
        drawing.save(stack_drawing.draw_trace(name, shown[name]), output)
    if html is not None:
        page.write(html, f"{Path(file).name}: {', '.join(runs)}", examples, traces_of_run)
    if as_json:
        print_json(_described(example, shown))
        return
    if len(examples) > 1:
        print(outline.verdicts(traces_of_run) + "\n")
    print(outline.outline(shown))


def _named(folders: Sequence[Path]) -> "dict[str, Run]":
    """Runs by the names of their models, or of their folders where two have the same model."""
    from dgl_treestack.errors import ConfigurationError
    from dgl_treestack.runs.run import Run

    runs = [Run.open(folder) for folder in folders]
    for names in ([run.config.model.name for run in runs], [run.folder.resolve().name for run in runs]):
        if len(set(names)) == len(names):
            return dict(zip(names, runs, strict=True))
    raise ConfigurationError("Two runs have the same name. Give each run once; rename a folder to compare equal names.")


def _read(file: str, limit: int, chosen: str) -> "tuple[list[Example], Example]":
    """The first `limit` examples of a file, all when it is 0, and the one with the chosen id, the first when that is ''."""
    from dgl_treestack.data import formats
    from dgl_treestack.errors import DataError
    from dgl_treestack.resources import find_data

    examples: list[Example] = []
    chosen_example = None
    for example in formats.read(find_data(file)):
        if not limit or len(examples) < limit:
            examples.append(example)
        if chosen_example is None and chosen in ("", example.id):
            chosen_example = example
        if chosen_example is not None and len(examples) == limit:
            break
    if not examples:
        raise DataError("There are no equations in the file.", file)
    if chosen_example is None:
        raise DataError(f"No equation has the id {chosen!r}. Leave --equation out for the first one.", file)
    return examples, chosen_example


def _described(example: "Example", shown: "Mapping[str, Trace]") -> dict[str, Any]:
    """One equation for programs: nodes in pre-order, and per model its record and its gates."""
    from dgl_treestack.inspection import drawing, page

    tree = next(iter(shown.values())).tree
    models = {
        name: {"record": trace.record, "sides": trace.sides(), "gates": page.gates_of(trace), "rows": page.rows_of(trace)}
        for name, trace in shown.items()
    }
    nodes = [{"label": drawing.label(tree, node), "children": tree.children(node)} for node in range(tree.size)]
    return {"id": example.id, "text": str(example.equation), "nodes": nodes, "models": models}


def _inspect_graphs(file: str, limit: int, chosen: str, output: Path | None, vocabulary: str, *, as_json: bool) -> None:
    """Print what is in the first `limit` trees of a file of graphs and the table of one tree; draw or write that tree.

    chosen: the number of that tree, counted by roots, the first when it is ''. vocabulary: of graphs without texts.
    """
    import torch

    from dgl_treestack.data.graph import roots
    from dgl_treestack.data.vocabulary import Vocabulary
    from dgl_treestack.data.wellformed import check
    from dgl_treestack.errors import DataError, ExpressionError, GraphError
    from dgl_treestack.expression.networkx import read
    from dgl_treestack.expression.operators import MATH
    from dgl_treestack.inspection import drawing, graph_file, network, summary, table

    leaves = Vocabulary.preset(vocabulary)
    graph = graph_file.read(file)
    try:
        checked, roots_of_file = check(graph, MATH), roots(graph).tolist()
        tree = _tree_number(chosen, len(roots_of_file), file)
        first_trees = torch.from_numpy(table.nodes_below(checked, roots_of_file[: limit or None])).to(graph.idtype)
        counts = summary.summarise(graph.subgraph(first_trees, store_ids=False), MATH, leaves)
        nodes = table.nodes_below(checked, [roots_of_file[tree]])
        rows, drawn = table.rows(graph, MATH, leaves, nodes), network.to_networkx(graph, MATH, leaves, nodes)
    except GraphError as error:
        raise DataError(str(error), file) from None
    if as_json:
        print_json({**dataclasses.asdict(counts), "rows": rows})
    else:
        print(f"{summary.text(counts)}\n\ntree {tree}\n{table.text(rows)}")
    if output is None:
        return
    if output.suffix == network.SUFFIX:
        network.write_graphml(drawn, output)
        return
    try:
        title = drawing.shortened(str(read(drawn)))
    except ExpressionError:  # nodes are shared
        title = f"{Path(file).name}, tree {tree}"
    drawing.save(drawing.draw_network(drawn, title), output)


def _tree_number(chosen: str, count: int, file: str) -> int:
    from dgl_treestack.errors import DataError

    if not count:
        raise DataError("There are no trees in the file. Save graphs with nodes.", file)
    if chosen and not (chosen.isascii() and chosen.isdigit() and len(chosen) < 19 and int(chosen) < count):
        raise DataError(f"--equation {chosen} is no tree of the file. Give a number from 0 to {count - 1}.", file)
    return int(chosen or 0)
