"""`treestack inspect`: a batch of equations, what models do inside an equation, or saved DGL graphs."""

import re
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from dgl_treestack.cli import Json, print_json, refuse_if
from dgl_treestack.data import formats
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.errors import DataError, ExpressionError, GraphError, VocabularyError
from dgl_treestack.expression.language import find
from dgl_treestack.expression.operators import Signature
from dgl_treestack.resources import find_data
from dgl_treestack.runs.run import Run

SUFFIXES = (".png", ".svg", ".graphml")  # of --output


def inspect(
    file: Annotated[
        Positional[str],
        arg(help="A file of equations, a bundled one such as bundled:quickstart/train, or a .bin file of dgl.save_graphs."),
    ],
    *,
    limit: Annotated[int, arg(help="How many equations to read from the start of the file; 0 reads all.")] = 256,
    equation: Annotated[
        str, arg(help="The equation to show with --run or to draw: its id; in a .bin file, its number. Default: the first.")
    ] = "",
    run: Annotated[
        tuple[Path, ...], arg(help="Run folders. Show what their models do, and where the first two differ most.")
    ] = (),
    output: Annotated[
        Path | None, arg(help="Also draw the equation as a tree (.png, .svg) or write it as a graph (.graphml).")
    ] = None,
    html: Annotated[Path | None, arg(help="With --run: also write a page to browse all equations that were read.")] = None,
    vocabulary: Annotated[
        str, arg(help="Vocabulary of the leaves, canonical or released. With --run, models use their own.")
    ] = "canonical",
    language: Annotated[str, arg(help="The language of the file: a name of `treestack languages`, or a .toml file.")] = "math",
    json: Json = False,
) -> None:
    """Show what a batch of equations consists of, or with --run what models do in an equation: actions, stacks, verdicts.

    For a file of DGL graphs, also list the nodes of one tree with their signals and the norms of their states.
    """
    is_of_graphs, of_models, suffix = file.endswith(".bin"), run or html, output.suffix if output else ".svg"
    broken_rules = {
        f"--limit {limit} is negative. Give the number of equations, 0 for all.": limit < 0,
        f"A tree is drawn into a .png or .svg file or written into a .graphml file, not {suffix!r}.": suffix not in SUFFIXES,
        "--run and --html look into equations, not into saved graphs. Give a file of equations.": is_of_graphs and of_models,
        "What a model does is drawn into a .png or .svg file. For .graphml, leave --run out.": run and suffix == ".graphml",
        "A page shows what models do. Name their run folders with --run.": html and not run,
    }
    refuse_if(broken_rules)
    if is_of_graphs:
        answer, text = _graphs(file, limit, equation, output, vocabulary, language)
    elif run:
        answer, text = _runs(file, limit, equation, output, run, html)
    else:
        answer, text = _equations(file, limit, equation, output, vocabulary, language)
    print_json(answer) if json else print(text)


def _equations(file: str, limit: int, chosen: str, output: Path | None, vocabulary: str, language: str) -> tuple[Any, str]:
    """Count over the first equations of a file, and draw or write the chosen one. Returns counts for programs and people."""
    from dgl_treestack.data import graph
    from dgl_treestack.inspection import drawing, network, table

    signature = find(language)
    examples, chosen_example = _read_examples(file, limit, chosen, signature)
    texts = (text for example in (*examples, chosen_example) for _, _, text in example.equation.leaves())
    leaves = Vocabulary.of_words(texts) if signature.words else Vocabulary.preset(vocabulary)
    for example in examples:
        try:
            for _, kind, text in example.equation.leaves():
                leaves.row(kind, text)
        except VocabularyError as error:
            raise DataError(str(error), example.source or None) from None
    batch = graph.from_expressions([example.equation for example in examples], leaves, signature)
    counts = table.summarise(batch, signature, leaves)
    if output is not None and output.suffix == network.SUFFIX:
        chosen_graph = graph.from_expressions([chosen_example.equation], leaves, signature)
        network.write_graphml(network.to_networkx(chosen_graph, signature, leaves), output)
    elif output is not None:
        drawing.save(drawing.draw(chosen_example.equation), output)
    more = f"\n(the first {limit} of the file; --limit 0 reads all)" if len(examples) == limit else ""
    return counts, table.summary_text(counts) + more


def _runs(
    file: str, limit: int, chosen: str, output: Path | None, folders: Sequence[Path], html: Path | None
) -> tuple[Any, str]:
    """Trace models on equations; draw the chosen one for the first model, write a page of all. Returns what models do in it."""
    from dgl_treestack.inspection import drawing, trace_views, traces

    opened = [Run.open(folder) for folder in folders]
    names = [run.config.model.name for run in opened]
    if len({*names}) < len(names):  # two runs have the same model
        names = [run.folder.resolve().name for run in opened]
    same_name = "Two runs have the same name. Give each run once; rename a folder to compare equal names."
    refuse_if({same_name: len({*names}) < len(names)})
    runs = dict(zip(names, opened, strict=True))
    languages = {run.language.name: run.language for run in runs.values()}
    refuse_if({f"The runs have different languages: {', '.join(languages)}. Inspect them one at a time.": len(languages) > 1})
    examples, chosen_example = _read_examples(file, limit, chosen, *languages.values())
    if chosen and html is None:
        examples = [chosen_example]
    elif chosen_example not in examples:
        examples.append(chosen_example)
    traces_of_run = {name: traces.make(run, examples) for name, run in runs.items()}
    for example, *of_models in zip(examples, *traces_of_run.values(), strict=True):
        if len({trace.tree for trace in of_models}) > 1:
            message = f"{', '.join(runs)} do not read the same tree here, as their tasks differ. Inspect them one at a time."
            raise DataError(message, example.source or None)
    shown = {name: of_run[examples.index(chosen_example)] for name, of_run in traces_of_run.items()}
    first, tree = next((name, trace.tree) for name, trace in shown.items())
    if output is not None:
        drawing.save(trace_views.draw_trace(first, shown[first]), output)
    if html is not None:
        trace_views.write_page(html, f"{Path(file).name}: {', '.join(runs)}", examples, traces_of_run)
    labels = [drawing.label(*node, tree.signature) for node in zip(tree.names, tree.texts, strict=True)]
    nodes: list[dict[str, Any]] = [{"label": name, "children": tree.children(node)} for node, name in enumerate(labels)]
    for node, label_of_node in zip(nodes, chosen_example.labels, strict=False):  # not all data have labels
        node["label of the data"] = label_of_node
    models: dict[str, dict[str, Any]] = {}
    for name, trace in shown.items():
        gates, rows = trace_views.gates_and_norms(trace)
        models[name] = {"record": trace.record, "sides": trace.sides(), "gates": gates, "rows": rows}
        if trace.answers:
            models[name]["answers"] = trace_views.answers(trace)
    answer = {"id": chosen_example.id, "text": str(chosen_example.equation), "nodes": nodes, "models": models}
    header = f"{trace_views.correctness_table(traces_of_run)}\n\n" if len(examples) > 1 else ""
    return answer, header + trace_views.outline(shown)


def _read_examples(file: str, limit: int, chosen: str, signature: Signature) -> tuple[list[formats.Example], formats.Example]:
    """Return the first `limit` examples of a file (0: all), and the one with the chosen id ('': the first)."""
    remaining = formats.read(find_data(file), signature)
    examples = list(islice(remaining, limit or None))
    for example in chain(examples, remaining):
        if chosen in ("", example.id):
            return examples, example
    unknown_id = f"No equation has the id {chosen!r}. Leave --equation out for the first one."
    raise DataError(unknown_id if examples else "There are no equations in the file.", file)


def _graphs(file: str, limit: int, chosen: str, output: Path | None, vocabulary: str, language: str) -> tuple[Any, str]:
    """As `_equations`, for a file of graphs. chosen: number of a tree, by roots. vocabulary: for leaves without texts."""
    import torch

    from dgl_treestack.data.graph import roots
    from dgl_treestack.data.wellformed import check
    from dgl_treestack.expression.networkx import read
    from dgl_treestack.inspection import drawing, graph_file, network, table

    signature = find(language)
    leaves = None if signature.words else Vocabulary.preset(vocabulary)
    graph = graph_file.read(file)
    is_drawn = output is None or output.suffix != network.SUFFIX
    try:
        checked, tops = check(graph, signature), roots(graph).tolist()
        tree = int(chosen or 0) if re.fullmatch("[0-9]{0,18}", chosen) else len(tops)
        if tree >= len(tops):
            absent = f"--equation {chosen} is no tree of the file. Give a number from 0 to {len(tops) - 1}."
            raise DataError(absent if tops else "There are no trees in the file. Save graphs with nodes.", file)
        first_trees = torch.from_numpy(table.nodes_below(checked, tops[: limit or None])).to(graph.idtype)
        counts = table.summarise(graph.subgraph(first_trees, store_ids=False), signature, leaves)
        nodes = table.nodes_below(checked, [tops[tree]])
        rows = table.rows(graph, signature, leaves, nodes)
        tree_network = network.to_networkx(graph, signature, leaves, nodes, shorten=is_drawn)
    except GraphError as error:
        raise DataError(str(error), file) from None
    if output is not None and not is_drawn:
        network.write_graphml(tree_network, output)
    elif output is not None:
        try:
            title = drawing.shortened(str(read(tree_network, signature)))
        except ExpressionError:  # nodes are shared
            title = f"{Path(file).name}, tree {tree}"
        drawing.save(drawing.draw_network(tree_network, title, signature), output)
    return {**counts, "rows": rows}, f"{table.summary_text(counts)}\n\ntree {tree}\n{table.text(rows)}"
