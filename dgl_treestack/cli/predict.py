"""`treestack predict`."""

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from dgl_treestack import atomic
from dgl_treestack.cli import Json, Precision, print_json
from dgl_treestack.data import formats
from dgl_treestack.errors import DataError, ExpressionError, TreestackError
from dgl_treestack.expression import Equation, Expression, notations
from dgl_treestack.expression.operators import UNKNOWN, Signature
from dgl_treestack.resources import BUNDLED
from dgl_treestack.runs.run import Run

VERIFICATION = "verification"
PHRASE = "A phrase is (lovely film), a bracket around its parts, or with unknown labels (- (- lovely) (- film))."


def predict(
    trees: Annotated[
        Positional[str], arg(help="A tree in the notation of the run's language, or a file: .jsonl, .tsv, .txt, .json, or .gz.")
    ],
    *,
    run: Annotated[Path, arg(help="A run folder.")],
    output: Annotated[Path | None, arg(help="Write the records to this file (JSON Lines) instead of printing them.")] = None,
    precision: Precision = "float32",
    json: Json = False,
) -> None:
    """Show what a run's model answers for trees, labelled or not. A file is not added to the run, unlike with `evaluate`."""
    import numpy as np
    import torch

    from dgl_treestack.data import records
    from dgl_treestack.runs import evaluation

    opened = Run.open(run)
    if trees.startswith(BUNDLED) or trees.endswith(formats.SUFFIXES):
        examples = formats.read_examples([trees], signature=opened.language)
    else:
        examples = [_example(trees, opened.language)]
    model = opened.load_model(getattr(torch, precision))
    dataset = model.prepare(examples)
    table = evaluation.answers(model, dataset, group_by=opened.config.data.group_by)
    if output is not None:
        atomic.write_json_lines(output, records.rows_of(table))
    elif json:
        print_json(records.rows_of(table))
    else:
        remaining = table.iter_rows(named=True)
        if len(table) and (table["task"] == VERIFICATION).all():
            print("P(correct)  answer     equation")
        for example, count in zip(examples, np.diff(dataset.offsets).tolist(), strict=True):
            tree, rows = example.equation, list(islice(remaining, count))
            answers = {row.get("node") or 0: row.get("predicted", row["score"]) for row in rows}
            if "node" in rows[0]:  # the tree with the answers, in the notation `labelled`
                labels = [str(answers.get(node, UNKNOWN)) for node in range(tree.size)]
                line = f"{labels[0]}\t{notations.write(tree, labels, 'labelled')}"
            elif rows[0]["task"] == VERIFICATION and rows[0]["score"] is not None:
                probability = 1 / (1 + math.exp(-max(-700.0, rows[0]["score"])))  # exp(710) is beyond a float
                line = f"{probability:>10.3f}  {'correct' if rows[0]['score'] > 0 else 'incorrect':<9}  {tree}"
            else:
                line = f"{answers[0]:.4g}\t{tree}" if isinstance(answers[0], float) else f"{answers[0]}\t{tree}"
            print(line)


def _example(text: str, language: Signature) -> formats.Example:
    """Return the example of a text: a tree, or a pair with a tab between its trees. Raises DataError for the name of a file."""
    sides = text.split("\t")
    if language.root is not None and len(sides) == 2:
        return formats.Example(Equation.of(*(Expression.parse(side, language) for side in sides)))
    try:
        example = formats.from_dict({"text": text, "signature": language.name}, "", language)
    except TreestackError as error:
        if language.notation != "labelled":
            raise
        try:  # a phrase without labels
            tree = Expression.parse(text, replace(language, notation="plain"))
        except ExpressionError:
            raise DataError(f"{error}\n{PHRASE}") from None
        example = formats.Example(Expression(tree.names, tree.texts, tree.arities, language))
    if example.equation.size == 1 and Path(text).suffix[1:].isalnum():
        raise DataError(f"{text} is no tree with an operator, and no file that ends in {', '.join(formats.SUFFIXES)}.")
    return example
