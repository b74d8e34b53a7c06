"""The papers' protocols at the smallest size that runs; their tables, committed ones too, say what the records say."""

import csv
import dataclasses
import os
import shutil
import statistics
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from each_case import assert_raises
from small_runs import write_data
from tables import table_of

from dgl_treestack.data import records
from dgl_treestack.data.formats import read_examples, write
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.experiments import collection, tables
from dgl_treestack.experiments.collection import configure
from dgl_treestack.experiments.protocol import EXTENTS, SCALES, Compared, Extent, Row, Scale, check_data, protocols
from dgl_treestack.experiments.reproduce import describe, missing, reproduce
from dgl_treestack.generate.presets import SetOptions
from dgl_treestack.generate.production import produce
from dgl_treestack.resources import configs
from dgl_treestack.results import archive, metrics, run_result
from dgl_treestack.results.report import answers
from dgl_treestack.runs.configuration import ModelConfig
from dgl_treestack.runs.run import Run, build_model

KINDS = ("train", "validation", "test")
FILES = ("table.md", "table.csv", "records.parquet")


LANGUAGES = {"listops": {"far_lists": 6}, "logic": {}}  # protocols on other trees than equations -> options of their data


@pytest.fixture
def few():
    """The protocols on equations with two models each, by name."""
    return {name: shortened(protocol) for name, protocol in protocols().items() if name not in LANGUAGES}


@pytest.fixture
def tiny(tmp_path, monkeypatch, few):
    """A scale of 60 equations of depth 1-4, one epoch, and protocols of two models each, for the depths that there are."""
    sizes = {"train": 60, "validation": 60, "test": 160}
    data = {kind: write_data(tmp_path / f"{kind}.jsonl", sizes[kind], i, kind) for i, kind in enumerate(KINDS)}
    deep = write_data(tmp_path / "deep.jsonl", 40, 9, "deep")
    extras = {**SCALES["smoke"].extras, "deep": deep}
    changes = {"schedule.epochs": 1, "model.hidden": 3, "compile": "off"}
    own = {"beyond/tree_slots": {"model.hidden": 8}, "beyond/tree_slots-1m": {"model.hidden": 32}}
    others = {"other_data": {"paper-labels": data, "authors-40k": data}, "differs": "few equations"}
    monkeypatch.setitem(SCALES, "tiny", Scale("a test", data, extras, (0, 1), changes, own, **others))
    monkeypatch.setattr("dgl_treestack.experiments.reproduce.protocols", lambda: few)
    monkeypatch.setattr("dgl_treestack.plots.depth.MIN_EQUATIONS", 5)
    apart = SimpleNamespace(plan=lambda *_: [], prepare=lambda *_: None)  # for an experiment with tests of its own: no runs
    monkeypatch.setattr("dgl_treestack.experiments.reproduce.APART", {"algorithmic": apart})
    monkeypatch.setitem(EXTENTS, "tiny", Extent())
    return tmp_path


def shortened(protocol):
    common = [row for row in protocol.rows if row.label in ("Tree-LSTM", "Tree-SMU")]
    cells = ("tree_rnn", "tree_lstm", "tree_smu", "mtree_lstm", "beyond")  # encoders cannot read the numbers of these data
    rows = common if len(common) == 2 else [row for row in protocol.rows if row.config.startswith(cells)][:2]
    depths = (3, 4) if protocol.depths[0] > 1 else protocol.depths
    return dataclasses.replace(protocol, rows=rows, figures=dict.fromkeys(protocol.figures, ()), depths=depths)


def changed(run, **about):
    return dataclasses.replace(run, about={**run.about, **about})


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_protocol_ends_in_a_table_and_a_figure(tiny):
    output, shown = tiny / "out", list[str]()
    assert reproduce(["productivity", "localism"], "tiny", output, show=shown.append) == 0
    for name in ("productivity", "localism"):
        assert {path.name for path in (output / name).iterdir()} - {"pairs.csv"} == {*FILES, "depth.svg", "depth.png"}
    lines = {(row["model"], row["measured"]): row for row in rows_of(output / "productivity" / "table.csv")}
    train, validation = ([e.label for e in read_examples([str(tiny / f"{kind}.jsonl")])] for kind in KINDS[:2])
    share = validation.count(statistics.mode(train)) / len(validation)
    assert float(lines["majority class", "validation accuracy"]["ours"]) == pytest.approx(100 * share)
    assert float(lines["bag of tokens", "train 1-7 recall"]["ours"]) > 90
    smu = lines["Tree-SMU", "validation accuracy"]
    assert (smu["paper"], smu["paper sd"], smu["seeds"]) == ("93.52", "0.28", "0 1")
    folders = sorted((output / "runs").glob("tree_smu-*"))
    runs = [run for run in map(run_result.read, folders) if run.config.data.min_depth == 1]
    mean = sum(records.accuracy(run.of("validation")) for run in runs) / 2
    assert float(smu["ours"]) == pytest.approx(mean) and float(smu["difference"]) == pytest.approx(mean - 93.52)
    assert lines["Tree-SMU", "deep 8-19 accuracy"]["ours"] == "", "no such depths here"
    text = (output / "localism" / "table.md").read_text()
    assert "Arabshahi 2020, Table 2" in text and "98.86 ± 0.07 / " in text
    tested = (records.read(folders[0] / "records" / "deep.parquet")["depth"] <= 4).sum()
    assert f"the most accurate on the set `deep`, depths 1-4 ({tested} equations)" in text
    parameters = run_result.with_origin(run_result.read(folders[0])).about["parameters"]
    assert f"| Tree-SMU | {parameters:,} | tree_smu | 3 | 32 | 0.0 |" in text, "settings"
    assert parameters == sum(weight.numel() for weight in Run(folders[0]).load_model().parameters()) > 100
    pair, of_test_set = rows_of(output / "localism" / "pairs.csv")
    about = {"set": "deep", "first": "Tree-SMU", "second": "Tree-LSTM", "depths": "1-4", "seeds": "2", "records": str(tested)}
    assert pair.items() >= about.items() and of_test_set["set"] == "test" and "| Tree-SMU | Tree-LSTM |" in text
    assert "treestack reproduce localism --scale tiny" in text and text in shown
    assert "What differs from the papers:\n\n- all rows, unless the table of settings says otherwise: few equations.\n" in text
    trained = [run_result.with_origin(run_result.read(folder)) for folder in (output / "runs").glob("*")]
    hours = sum(run.about["cpu_seconds"] for run in trained if run.config.data.min_depth > 1) / 3600
    assert f"Training took {hours:.2f} CPU hours" in text

    assert reproduce(["localism"], "tiny", output, seeds=[0, 1, 7], train=False) == 0
    assert rows_of(output / "localism" / "table.csv")[0]["seeds"] == "0 1", "seed 7 is not there and was not made"
    assert_raises(ConfigurationError, "each given once", reproduce, ["localism"], "tiny", output, seeds=[0, 0])

    def state():
        times = {path: path.stat().st_mtime_ns for path in (output / "runs").glob("*/DONE")}
        return times, (output / "productivity" / "table.csv").read_bytes()

    before = state()
    assert len(before[0]) == 8 and reproduce(["productivity"], "tiny", output) == 0 and state() == before

    write_data(tiny / "test.jsonl", 160, 77, "test")
    assert_raises(ConfigurationError, "has changed since", reproduce, ["productivity"], "tiny", output)


@pytest.mark.slow
def test_every_protocol_runs(tiny, few):
    """A figure that many draw is drawn by two of them."""
    output, count_of_figure = tiny / "out", Counter()
    for name, protocol in few.items():
        count_of_figure.update([*protocol.figures])
        few[name] = dataclasses.replace(protocol, figures={key: () for key in protocol.figures if count_of_figure[key] <= 2})
    assert reproduce(["all"], "tiny", output, seeds=[0]) == 0
    for name, protocol in few.items():
        files = {path.name for path in (output / name).iterdir()} - {"pairs.csv"}
        assert files == {*FILES, *(f"{figure}.{kind}" for figure in protocol.figures for kind in ("svg", "png"))}
        measured = {row["measured"] for row in rows_of(output / name / "table.csv") if row["ours"]}
        assert measured and measured <= {column.title for column in protocol.columns}

    for path in tiny.glob("*.jsonl"):
        path.unlink()
    for name, protocol in few.items():  # without data and runs, from the files of records alone
        again = tiny / "again" / name
        assert reproduce([name], "tiny", again, seeds=[0], train=False, from_records=[output / name / "records.parquet"]) == 0
        drawn = [] if {"expressions", "values"} & set(protocol.extras) else [f"{figure}.svg" for figure in protocol.figures]
        for file in (*FILES, *drawn):
            assert (again / name / file).read_bytes() == (output / name / file).read_bytes(), (name, file)
        assert bool(drawn) == any((again / name).glob("*.svg"))
    assert {figure for protocol in few.values() for figure in protocol.figures} == {*count_of_figure}

    def ours(name, measured, model="Tree-LSTM"):
        lines = (line for line in rows_of(output / name / "table.csv") if line["model"].endswith(model))
        return float({line["measured"]: line["ours"] for line in lines}[measured])

    (file,) = (output / "runs").glob("tree_lstm-*/records/blanks-completion.parquet")
    blanks = records.read(file)
    assert len(blanks) == 72 and set(blanks["depth"]) == set(range(8, 14))
    assert ours("completion", "collapse top-5") == pytest.approx(100 * (blanks["collapse"] <= 5).sum() / 72)

    expressions = records.read(file.with_name("candidates-expressions.parquet"))
    assert set(expressions["depth"]) == {1, 2} and set(expressions["h"].list.len()) == {3}
    assert ours("substitutivity", "neighbour") == pytest.approx(metrics.clusters(expressions)["agreement"])

    configs_of_runs = (output / "runs").glob("tree_smu-*/config.toml")
    (smu,) = (path.parent for path in configs_of_runs if "stack_size = 1\n" in path.read_text())
    usage = records.by(records.read(smu / "records" / "validation-usage.parquet"))[3]["usage"]
    assert ours("stack_size", "rows at depth 3", "1 row") == pytest.approx(usage.mean()) and usage.max() <= 1


def test_runs_in_a_file_of_records_are_not_trained_again(tiny, caplog):
    first, second, alone = (tiny / name for name in ("first", "second", "alone"))
    assert reproduce(["localism"], "tiny", first, seeds=[0]) == 0
    file = first / "localism" / "records.parquet"
    shutil.copytree(first / "runs", alone / "runs")
    assert reproduce(["localism"], "tiny", alone) == 0
    assert [name[-1] for name in missing(["localism"], "tiny", second, from_records=[file])] == ["1", "1"]
    archive.write(file, [changed(run, machine="another processor") for run in archive.read(file)])
    assert reproduce(["localism"], "tiny", second, from_records=[file]) == 0
    assert sorted(path.name[-1] for path in (second / "runs").iterdir()) == ["1", "1"]
    text = (second / "localism" / "table.md").read_text()
    for name in ("table.csv", "pairs.csv"):
        same = (second / "localism" / name).read_text() == (alone / "localism" / name).read_text()
        assert same, "as if all were of one machine"
    assert {row["seeds"] for row in rows_of(second / "localism" / "table.csv") if "Tree" in row["model"]} == {"0 1"}
    assert "The rows are not of one origin." in text
    rows = "Tree-LSTM (seeds 1); Tree-SMU (seeds 1): commit"
    assert "another processor, torch" not in text and "another processor. The rows" in text and rows in text


@pytest.mark.slow
def test_records_that_do_not_belong_together_are_refused(tiny):
    output = tiny / "out"
    names = ["localism", "capacity", "systematicity"]
    assert reproduce(names, "tiny", output, seeds=[0]) == 0
    localism, capacity, systematicity = (output / name / "records.parquet" for name in names)
    joined = collection.read_records([localism, capacity, systematicity])
    assert len(joined) == 2 + 2 + 3 * len(collection.LABELS), "capacity and systematicity share runs, but not sets"
    with pytest.raises(DataError, match="has no records 'train', which this experiment needs"):
        reproduce(["systematicity"], "tiny", tiny / "a", seeds=[0], train=False, from_records=[capacity])
    assert reproduce(["systematicity"], "tiny", tiny / "b", seeds=[0], train=False, from_records=[capacity, systematicity]) == 0
    assert (tiny / "b" / "systematicity" / "table.md").read_text() == (output / "systematicity" / "table.md").read_text()

    other = tiny / "other.parquet"
    runs = archive.read(localism)
    archive.write(other, [changed(run, commit="another") for run in runs])
    with pytest.raises(DataError, match=r"other.parquet: Its run .* is not that of .*localism/records.parquet"):
        collection.read_records([localism, other])
    archive.write(other, [changed(run, commit="another") for run in runs if not run.rows])
    assert collection.read_records([localism, other]).keys() == collection.read_records([localism]).keys()
    renamed = runs[0].answers.with_columns(id=pl.lit("new ") + pl.col("id").cast(pl.String))
    archive.write(other, [dataclasses.replace(runs[0], answers=renamed), *runs[1:]])
    with pytest.raises(DataError, match=r"'validation' are of other equations"):
        reproduce(["localism"], "tiny", tiny / "c", seeds=[0], train=False, from_records=[other])


def test_what_is_missing_is_listed_and_a_row_may_need_fewer_seeds(tiny, monkeypatch):
    assert_raises(ConfigurationError, "Unknown scale of algorithmic 'large'", missing, ["algorithmic"], "large", tiny)
    listed = missing(["all"], "tiny", tiny / "out")
    assert len(listed) == len(set(listed)) > 20 and [name[-1] for name in listed] == sorted(name[-1] for name in listed)
    assert not (tiny / "out").exists()
    localism = shortened(protocols()["localism"])
    first, second = localism.rows
    fewer = dataclasses.replace(localism, rows=[dataclasses.replace(first, seeds=1), second])
    monkeypatch.setattr("dgl_treestack.experiments.reproduce.protocols", lambda: {"localism": fewer})
    assert sorted(name[-1] for name in missing(["localism"], "tiny", tiny / "out")) == ["0", "0", "1"]
    assert len(missing(["localism"], "tiny", tiny / "out", seeds=[0, 1])) == 4, "seeds of the command line are for all rows"
    assert reproduce(["localism"], "tiny", tiny / "out") == 0
    table = rows_of(tiny / "out" / "localism" / "table.csv")
    assert {row["model"]: row["seeds"] for row in table if "Tree" in row["model"]} == {first.label: "0", second.label: "0 1"}


@pytest.mark.parametrize("name", sorted(protocols()))
def test_every_row_is_a_configuration_and_the_papers_numbers_have_a_column(name):
    protocol = protocols()[name]
    titles = {column.title for column in protocol.columns}
    assert len({row.label for row in protocol.rows}) == len(protocol.rows)
    built, known = list[ModelConfig](), configs()
    scales = [scale for scale in SCALES.values() if name in scale.only or not (scale.only or name in LANGUAGES)]
    for row in protocol.rows:
        assert (row.config if "/" in row.config else f"models/{row.config}") in known and set(row.paper) <= titles
        for scale in scales:
            config = configure(row, protocol, scale)
            assert config.data.depths == range(protocol.depths[0], protocol.depths[1] + 1)
            if config.data.language == "math" and config.model not in built:
                assert build_model(config.model).heads
                built.append(config.model)
    named = {label for labels in (*protocol.pairs, *protocol.figures.values()) for label in labels}
    assert named <= {row.label for row in protocol.rows}
    assert protocol.source in describe()
    assert tables.compare(protocol, {row.label: [] for row in protocol.rows})


def test_a_pair_has_the_papers_difference_beside_ours():
    protocol = protocols()["ablation_2019"]
    run = answers(table_of([{"id": "a", "correct": True}, {"id": "b", "correct": False}]))
    answers_of = {row.label: {0: run} for row in protocol.rows}
    lines = tables.compare_pairs(protocol, {protocol.compared[0]: answers_of})
    paper = {(line["first"], line["second"]): line["paper"] for line in lines}
    assert paper["Tree-LSTM+stack", "Tree-LSTM"] == pytest.approx(85.24 - 83.64)
    assert paper["Tree-RNN+stack", "Tree-RNN"] == pytest.approx(78.02 - 80.67)
    other = {Compared((1, 7)): answers_of}  # depths for which the paper prints nothing
    assert {line["paper"] for line in tables.compare_pairs(protocol, other)} == {None}


def test_protocols_share_runs_may_have_a_set_of_their_own_and_nested_shares_of_the_training_data():
    scale = SCALES["day"]
    every = protocols().items()
    rows = {name: {row.label: configure(row, protocol, scale).name for row in protocol.rows} for name, protocol in every}
    assert rows["productivity"]["Tree-LSTM"] == rows["ablation_2019"]["Tree-LSTM"] == rows["capacity"]["Tree-LSTM, hidden 50"]
    assert rows["productivity"]["Tree-LSTM"] != rows["localism"]["Tree-LSTM"]
    assert rows["sample_efficiency"]["Tree-SMU, 100 %"] == rows["productivity"]["Tree-SMU"]
    assert rows["systematicity"] == rows["productivity"]
    protocol = protocols()["unverified_labels"]
    for scale, name in (("day", "data/paper-labels/train.jsonl.gz"), ("smoke", "bundled:smoke/train")):
        assert configure(protocol.rows[0], protocol, SCALES[scale]).data.train == (name,)
    half, most = (read_examples(["bundled:smoke/train"], percent=percent) for percent in (50, 80))
    ids = [{example.id for example in share} for share in (half, most)]
    assert ids[0] < ids[1] and 0.45 < len(half) / 1482 < 0.55 and 0.75 < len(most) / 1482 < 0.85
    pairs = [example.pair for example in half if example.pair]
    assert all(pairs.count(pair) == 2 for pair in pairs[:50])


def test_unknown_names_and_missing_data(tmp_path, monkeypatch):
    assert_raises(ConfigurationError, "Unknown protocol 'localisms'", reproduce, ["localisms"], "smoke", tmp_path)
    assert_raises(ConfigurationError, "Unknown scale 'hour'", reproduce, ["localism"], "hour", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(missing(["algorithmic"], "day", tmp_path)) == 77, "it needs no data"
    for name in ("paper", "paper-labels"):
        with pytest.raises(DataError, match=f"treestack generate {name} --output-dir data/{name}"):
            check_data(SCALES["day"], sets=["", "paper-labels"])
        (tmp_path / "data" / name).mkdir(parents=True)
        for kind in KINDS:
            (tmp_path / "data" / name / f"{kind}.jsonl.gz").touch()
    check_data(SCALES["day"], sets=["", "paper-labels"])
    with pytest.raises(DataError, match="treestack generate completion-deep --output-dir data/completion-deep"):
        check_data(SCALES["day"], ["deep blanks"])


def test_the_authors_files_are_trained_on_from_any_folder(tiny):
    """Files of their format; with TREESTACK_AUTHORS_DIR their blanks, which all hold, are the deep equations."""
    folder = tiny / "theirs"
    folder.mkdir()
    with pytest.raises(DataError, match=r"40k_train.json: It does not exist. .*recursiveMemNet; give its folder with --data"):
        reproduce(["authors_40k"], "tiny", tiny / "out", data=folder)
    blanks = Path(os.environ.get("TREESTACK_AUTHORS_DIR", "nowhere"), "blanks", "40k_test_blank_6.json.gz")
    deep = read_examples([str(blanks)])[:40] if blanks.exists() else []
    for kind, file in zip(KINDS, ("40k_train.json", "40k_val_shallow.json", "40k_test.json"), strict=True):
        write(folder / file, [*read_examples([str(tiny / f"{kind}.jsonl")]), *(deep if kind == "test" else [])])
    assert reproduce(["authors_40k"], "tiny", tiny / "out", seeds=[0], data=folder) == 0
    text = (tiny / "out" / "authors_40k" / "table.md").read_text()
    assert "was tested on files of their format, and not run on these" in text
    runs = archive.read(tiny / "out" / "authors_40k" / "records.parquet")
    assert {run.config.data.train for run in runs if run.rows} == {(str(folder / "40k_train.json"),)}
    assert {len(run.of("test")) for run in runs} == {160 + len(deep)}


FIGURES = Path(__file__).parents[2] / "figures"
COMMITTED = sorted(FIGURES.glob("*/*/records.parquet"), key=lambda path: path.stat().st_size)
LANGUAGE_MODELS = FIGURES / "day" / "language_model" / "records.parquet"
WITH_PAIRS = [path for path in COMMITTED if path.with_name("pairs.csv").exists() and path != LANGUAGE_MODELS]
CHOSEN = COMMITTED if os.environ.get("TREESTACK_TABLES") == "all" else [LANGUAGE_MODELS, WITH_PAIRS[0]]


def test_committed_records_are_small_and_scale_day_has_the_rates_that_are_best_in_their_table():
    assert COMMITTED and all(path.stat().st_size < 3e6 for path in COMMITTED)
    best: dict[str, tuple[float, float]] = {}  # configuration -> its best validation accuracy, and the rate
    protocol = protocols()["learning_rate"]
    lines = rows_of(FIGURES / "day" / "learning_rate" / "table.csv")
    accuracies = {line["model"]: float(line["ours"]) for line in lines if line["measured"] == "validation" and line["ours"]}
    for row in protocol.rows:
        if list(row.changes) == ["optimizer.learning_rate"] and row.label in accuracies:
            reached = accuracies[row.label], row.changes["optimizer.learning_rate"]
            best[row.config] = max(best.get(row.config, reached), reached)
    assert len(best) >= 21
    for name, (_, rate) in best.items():
        assert configure(Row(name, name), protocol, SCALES["day"]).optimizer.learning_rate == rate, name


@pytest.mark.slow
@pytest.mark.parametrize("file", CHOSEN, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_a_committed_table_is_made_again_from_its_records(file, tmp_path, monkeypatch):
    """Language models and the smallest experiment on equations with pairs, or all with TREESTACK_TABLES=all."""
    monkeypatch.chdir(tmp_path)  # no data, no runs
    scale, name = file.parts[-3:-1]
    assert reproduce([name], scale, tmp_path, train=False, from_records=[file]) == 0
    for path in (path for path in file.parent.iterdir() if path.suffix in (".md", ".csv", ".parquet")):
        assert (tmp_path / name / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.slow  # makes lists and pairs of formulas
@pytest.mark.parametrize(("name", "options"), LANGUAGES.items())
def test_a_language_has_a_scale_and_a_table_of_its_own(name, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    produce(name, SetOptions(seed=1, equations=600, **options), Path("data", name))
    changes = SCALES[name].changes | {"schedule.epochs": 1, "model.hidden": 4, "compile": "off"}
    monkeypatch.setitem(SCALES, name, dataclasses.replace(SCALES[name], changes=changes, seeds=[0]))
    monkeypatch.setattr("dgl_treestack.experiments.reproduce.protocols", lambda: {name: shortened(protocols()[name])})
    monkeypatch.setattr("dgl_treestack.plots.depth.MIN_EQUATIONS", 1)
    assert reproduce([name], name, tmp_path / "out") == 0
    lines = {(row["model"], row["measured"]): row["ours"] for row in rows_of(tmp_path / "out" / name / "table.csv")}
    assert all(lines.values())
    run = run_result.read(next((tmp_path / "out" / "runs").glob("tree_lstm-*")))
    column, measure = {"listops": ("900-1000", ""), "logic": ("test 7-12", "operators")}[name]
    if measure:
        longer = run.of("test").filter(pl.col(measure).is_between(7, 12))
    else:
        longer = records.read(next(run.folder.glob("records/*900-1000*")))
        assert len(longer) == 6
    assert float(lines["Tree-LSTM", column]) == pytest.approx(records.accuracy(longer))
    assert "Trained on depths" not in (tmp_path / "out" / name / "table.md").read_text()
