"""Committed tables are what their committed records give: language models and the smallest experiment on equations with pairs,
or all with TREESTACK_TABLES=all."""

import csv
import os
from pathlib import Path

import pytest

from dgl_treestack.experiments._protocol import Row, protocols
from dgl_treestack.experiments.collection import configure
from dgl_treestack.experiments.reproduce import reproduce
from dgl_treestack.experiments.scales import SCALES

FIGURES = Path(__file__).parents[2] / "figures"
FILES = sorted(FIGURES.glob("*/*/records.parquet"), key=lambda path: path.stat().st_size)
LANGUAGE_MODELS = FIGURES / "day" / "language_model" / "records.parquet"
WITH_PAIRS = [path for path in FILES if path.with_name("pairs.csv").exists() and path != LANGUAGE_MODELS]
CHOSEN = FILES if os.environ.get("TREESTACK_TABLES") == "all" else [LANGUAGE_MODELS, WITH_PAIRS[0]]


def test_there_are_records():
    assert FILES and all(path.stat().st_size < 3e6 for path in FILES)


@pytest.mark.slow
@pytest.mark.parametrize("records", CHOSEN, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_a_table_is_made_again_from_its_records(records, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no data, no runs
    scale, name = records.parts[-3:-1]
    assert reproduce([name], scale, tmp_path, train=False, from_records=[records]) == 0
    for path in records.parent.iterdir():
        if path.suffix in (".md", ".csv", ".parquet"):
            assert (tmp_path / name / path.name).read_bytes() == path.read_bytes(), path.name


def test_scale_day_has_the_rates_that_are_best_in_the_table():
    best: dict[str, tuple[float, float]] = {}  # configuration -> its best validation accuracy, and the rate
    protocol = protocols()["learning_rate"]
    searched = [row for row in protocol.rows if list(row.changes) == ["optimizer.learning_rate"]]
    config_of_row = {row.label: (row.config, row.changes["optimizer.learning_rate"]) for row in searched}
    with (FIGURES / "day" / "learning_rate" / "table.csv").open() as file:
        for line in csv.DictReader(file):
            if line["measured"] == "validation" and line["ours"] and line["model"] in config_of_row:
                config, rate = config_of_row[line["model"]]
                best[config] = max(best.get(config, (0.0, 0.0)), (float(line["ours"]), rate))
    configured = {name: configure(Row(name, name), protocol, SCALES["day"]) for name in best}
    assert len(best) >= 21
    assert {name: config.optimizer.learning_rate for name, config in configured.items()} == {
        name: rate for name, (_, rate) in best.items()
    }
