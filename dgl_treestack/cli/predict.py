"""`treestack predict`."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack.cli._arguments import Json, Precision, print_json


def predict(
    trees: Annotated[
        Positional[str], arg(help="A tree in the notation of the run's language, or a file: .jsonl, .tsv, .json, may be .gz.")
    ],
    *,
    run: Annotated[Path, arg(help="A run folder.")],
    output: Annotated[Path | None, arg(help="Write the records to this file (JSON Lines) instead of printing them.")] = None,
    precision: Precision = "float32",
    json: Json = False,
) -> None:
    """Show what a run's model answers for trees, labelled or not. A file is not added to the run, unlike with `evaluate`."""
    import torch

    from dgl_treestack import atomic
    from dgl_treestack.data import formats
    from dgl_treestack.resources import BUNDLED
    from dgl_treestack.runs import evaluation
    from dgl_treestack.runs.run import Run

    opened = Run.open(run)
    if trees.startswith(BUNDLED) or trees.endswith(formats.SUFFIXES):
        examples = formats.read_examples([trees], signature=opened.language)
    else:
        examples = [formats.from_dict({"text": trees, "signature": opened.language.name}, "", opened.language)]
    model = opened.load_model(getattr(torch, precision))
    rows = list(evaluation.make_records(model, model.prepare(examples)))
    if output is not None:
        atomic.write_json_lines(output, rows)
    elif json:
        print_json(rows)
    else:
        for example, row in zip(examples, rows, strict=True):
            answer = row.get("predicted", row["score"])
            print(f"{answer:.4g}\t{example.equation}" if isinstance(answer, float) else f"{answer}\t{example.equation}")
