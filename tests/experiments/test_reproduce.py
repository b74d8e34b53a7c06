"""The papers' protocols at the smallest size that runs, and that their tables say what the records say."""

import csv
import dataclasses

import pytest
from runs import write_data

from dgl_treestack import records, results
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.experiments import scales, tables
from dgl_treestack.experiments.protocols import protocols
from dgl_treestack.experiments.reproduce import configure, describe, reproduce
from dgl_treestack.experiments.scales import SCALES, Scale
from dgl_treestack.resources import configs

KINDS = ("train", "validation", "test")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A scale of 60 equations of depth 1-4, one epoch."""
    data = {
        kind: write_data(tmp_path / f"{kind}.jsonl", 160 if kind == "test" else 60, i, kind) for i, kind in enumerate(KINDS)
    }
    deep = write_data(tmp_path / "deep.jsonl", 40, 9, "deep")
    changes = {"schedule.epochs": 1, "model.hidden": 3, "compile": "off"}
    monkeypatch.setitem(SCALES, "tiny", Scale("a test", data, deep, "bundled:quickstart/blanks", (0, 1), changes))
    return tmp_path


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def shallow(monkeypatch):
    """Localism with the depths that there are."""
    known = protocols()
    localism = dataclasses.replace(known["localism"], depths=(3, 4))
    monkeypatch.setattr("dgl_treestack.experiments.reproduce.protocols", lambda: {**known, "localism": localism})
    monkeypatch.setattr("dgl_treestack.plots.depth.MIN_EQUATIONS", 5)


def test_a_protocol_ends_in_a_table_and_a_figure(tiny, shallow, capsys):
    output = tiny / "out"
    assert reproduce(["productivity", "localism"], "tiny", output) == 0
    for name in ("productivity", "localism"):
        assert {path.name for path in (output / name).iterdir()} == {"table.md", "table.csv", "depth.svg", "depth.png"}
    found = {(row["model"], row["measured"]): row for row in rows_of(output / "productivity" / "table.csv")}
    smu = found["Tree-SMU", "validation"]
    assert (smu["paper"], smu["paper sd"], smu["seeds"]) == ("93.52", "0.28", "0 1")
    folders = sorted((output / "runs").glob("tree_smu-*"))
    runs = [run for run in map(results.read, folders) if run.config.data.min_depth == 1]
    mean = sum(records.accuracy(run.validation) for run in runs) / 2
    assert float(smu["ours"]) == pytest.approx(mean) and float(smu["difference"]) == pytest.approx(mean - 93.52)
    assert all((folder / "records" / "deep.jsonl").exists() == (run.config.data.min_depth == 1)
               for folder, run in zip(folders, map(results.read, folders), strict=True))  # fmt: skip
    assert found["Tree-SMU", "test 8-19"]["ours"] == "", "no such depths here"
    text = (output / "localism" / "table.md").read_text()
    assert "Arabshahi 2020, Table 2" in text and "98.9 ± 0.1 / " in text and "Points behind" in text
    assert "treestack reproduce localism --scale tiny" in text and text in capsys.readouterr().out

    before = {path: path.stat().st_mtime_ns for path in (output / "runs").glob("*/DONE")}
    tables_before = (output / "productivity" / "table.csv").read_bytes()
    assert len(before) == 12 and reproduce(["productivity"], "tiny", output) == 0
    assert {path: path.stat().st_mtime_ns for path in (output / "runs").glob("*/DONE")} == before
    assert (output / "productivity" / "table.csv").read_bytes() == tables_before


def test_completion_is_measured_on_the_same_runs(tiny):
    output = tiny / "out"
    assert reproduce(["completion"], "tiny", output, seeds=[0]) == 0
    (folder,) = (output / "runs").glob("tree_lstm-*")
    rows = records.read(folder / "records" / "blanks.jsonl")
    assert len(rows) == 72 and {row["depth"] for row in rows} == set(range(8, 14))
    found = {(row["model"], row["measured"]): row["ours"] for row in rows_of(output / "completion" / "table.csv")}
    assert float(found["Tree-LSTM", "collapse top-5"]) == pytest.approx(100 * sum(row["collapse"] <= 5 for row in rows) / 72)
    assert (output / "completion" / "depth.png").exists()


def test_what_is_missing_is_listed(tiny, capsys):
    reproduce(["all"], "tiny", tiny / "out", dry_run=True)
    listed = capsys.readouterr().out.split()
    assert len(listed) == len(set(listed)) > 50 and [name[-1] for name in listed] == sorted(name[-1] for name in listed)
    assert not (tiny / "out").exists()


@pytest.mark.parametrize("name", sorted(protocols()))
def test_every_row_is_a_configuration_and_the_papers_numbers_have_a_column(name):
    protocol = protocols()[name]
    titles = {column.title for column in protocol.columns}
    assert len({row.label for row in protocol.rows}) == len(protocol.rows)
    for row in protocol.rows:
        assert f"models/{row.config}" in configs() and set(row.paper) <= titles
        for scale in SCALES.values():
            config = configure(row, protocol, scale)
            assert config.data.depths == range(protocol.depths[0], protocol.depths[1] + 1)
    assert set(protocol.figure) <= {row.label for row in protocol.rows} and protocol.source in describe()
    assert tables.compare(protocol, {row.label: [] for row in protocol.rows})


def test_protocols_share_runs():
    known, scale = protocols(), SCALES["day"]
    rows = {
        name: {row.label: configure(row, protocol, scale).name for row in protocol.rows} for name, protocol in known.items()
    }
    assert rows["productivity"]["Tree-LSTM"] == rows["ablation_2019"]["Tree-LSTM"] == rows["capacity"]["Tree-LSTM, hidden 50"]
    assert rows["productivity"]["Tree-LSTM"] != rows["localism"]["Tree-LSTM"]
    assert rows["sample_efficiency"]["Tree-SMU, 100 %"] == rows["productivity"]["Tree-SMU"]


def test_unknown_names_and_missing_data(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="Unknown protocol 'localisms'"):
        reproduce(["localisms"], "smoke", tmp_path)
    with pytest.raises(ConfigurationError, match="Unknown scale 'hour'"):
        reproduce(["localism"], "hour", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="treestack generate paper --output-dir data/paper"):
        scales.check_data(SCALES["day"])


def test_shares_of_the_training_data_are_nested_and_keep_pairs():
    from dgl_treestack.training.evaluation import read_share

    half, most = (read_share(["bundled:quickstart/train"], percent) for percent in (50, 80))
    ids = [{example.id for example in share} for share in (half, most)]
    assert ids[0] < ids[1] and 0.48 < len(half) / 7408 < 0.52 and 0.78 < len(most) / 7408 < 0.82
    pairs = [example.pair for example in half if example.pair]
    assert all(pairs.count(pair) == 2 for pair in pairs[:50])
