"""Ranks of the authors' checkpoints over the authors' blanks. Runs where TREESTACK_AUTHORS_DIR names the folder of their files.

Every fortieth blank, for time; all of them: `treestack complete BLANKS --candidates CLASSES --run RUN --precision float64`.
"""

import gzip
import json

import pytest
import torch
from released import every_checkpoint

from dgl_treestack.completion import questions
from dgl_treestack.completion.scoring import rank, scores
from dgl_treestack.runs.import_authors import import_checkpoint

EVERY = 40


@pytest.mark.slow
@every_checkpoint
def test_ranks_of_the_released_checkpoints(authors, checkpoint, tmp_path):
    model = import_checkpoint(authors / "checkpoints" / f"{checkpoint}.checkpoint", tmp_path).load_model(torch.float64)
    with gzip.open(authors / "goldens" / f"completion_ranks_{checkpoint}.json.gz") as file:
        goldens = {(row[0], f"{row[2]}-{row[1]}"): tuple(row[3:]) for row in json.load(file)["rows"]}
    asked = []
    for number in range(7):
        path = authors / "blanks" / f"40k_test_blank_{number}.json.gz"
        ((candidates, group),) = questions.read(path, authors / "candidate_classes.json.gz")
        asked += [(number, question) for question in group]
    assert len(asked) == len(goldens) == 1939
    asked = asked[::EVERY]
    rows = scores(model, [question.blank for _, question in asked], candidates.expressions)
    for (number, question), row in zip(asked, rows, strict=True):
        ranks = rank(row, candidates.classes, question.truth, question.right)
        expected = goldens[number, question.example.id]
        # the goldens were made in float32, which takes scores as close as this for equal
        tied = (abs(row - row[question.truth]) < 2e-6).sum() > 1
        assert (ranks.raw, ranks.class_, ranks.collapse) == expected or tied, question.example.id
