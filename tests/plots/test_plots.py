import csv
import dataclasses
import io
import json
import math
import random
import statistics
from pathlib import Path

import polars as pl
import pytest
from each_case import assert_raises, cases
from small_runs import small_config
from tables import table_of

from dgl_treestack import Run, cells, plain_data, plots
from dgl_treestack.data import records
from dgl_treestack.errors import ConfigurationError, DataError
from dgl_treestack.generate.presets.paper import COUNTS
from dgl_treestack.generate.production import read_manifest
from dgl_treestack.plots import _style, audit, completion, confusion, depth, epochs, equations, learning_curve, usage
from dgl_treestack.results import archive, report, run_result
from dgl_treestack.results.metrics import METRICS
from dgl_treestack.results.run_result import read
from dgl_treestack.runs import configuration
from dgl_treestack.sequence import encoders

CHANCE = _style.MAJORITY["label"]


def fake_run(folder, config, seed, right, equations=100):
    """A run folder with records drawn so that accuracy falls with depth; no model behind it."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(configuration.dump(config))
    (folder / "environment.json").write_text(json.dumps({"seed": seed, "equations": {"train": equations}}))
    (folder / "vocabulary.json").write_text("{}")
    metrics = {"epoch": 2, "train_accuracy": 80.0, "validation_accuracy": 70.0 + seed}
    (folder / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    for name, *_ in (config.data.validation, config.data.test):
        depths = [d for d in range(1, 7) for _ in range(10 if d == 6 else 100)]
        rows = [
            {"id": str(i), "depth": d, "label": i % 2, "score": 0.0, "correct": rng.random() < right - 0.05 * d}
            for i, d in enumerate(depths)
        ]
        Run(folder).write_records(name, table_of(rows))
    return folder


@pytest.fixture
def folders(tmp_path):
    config = small_config(tmp_path)
    return [
        fake_run(tmp_path / "runs" / f"{c.name}-{seed}", c, seed, right)
        for c, right in ((config, 0.95), (dataclasses.replace(config, name="other"), 0.8))
        for seed in (0, 1, 2)
    ]


def write_manifest(folder, preset, counts):
    files = {"train.jsonl.gz": {"by depth and label": {str(depth): {"0": n, "1": n} for depth, n in counts.items()}}}
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"preset": preset, "files": files}))
    return folder


def give_classes(run):
    """Make the labels of a run the classes of a language, and every wrong answer one of class `two`."""
    (run.folder / "language.toml").write_text('notation = "lists"\nclasses = ["one", "two", "three"]\n[operators]\nmax = 2\n')
    for (name,) in (run.config.data.validation, run.config.data.test):
        table = run.read_records(name).with_columns(label=pl.col("label").replace_strict({0: "one", 1: "three"}))
        run.write_records(name, table.with_columns(predicted=pl.when("correct").then("label").otherwise(pl.lit("two"))))


def test_the_confusion_matrix_is_in_per_cent_of_the_labels(folders):
    for folder in folders[:3]:
        give_classes(Run(folder))
    runs = [read(folder) for folder in folders[:3]]
    axes, scale = confusion.draw(runs).axes
    right = records.accuracy(records.joined(run.of("test") for run in runs).filter(pl.col("label") == "three"))
    matrix = axes.get_images()[0].get_array()
    assert matrix.shape == (3, 3) and matrix[2].tolist() == pytest.approx([0, 100 - right, right])
    assert matrix[1].tolist() == [0, 0, 0]  # a class without examples
    assert [text.get_text() for text in axes.get_yticklabels()] == ["one (765)", "two (0)", "three (765)"]
    assert f"right {records.accuracy(records.joined(run.of('test') for run in runs)):.1f} %, chance 50.0 %" in axes.get_title()
    assert scale.get_ylabel().startswith("per cent")


def test_completion_shows_what_is_right_without_a_model(folders):
    """Chance, and always the most frequent value, in the panel of the first answer."""
    columns = {"class": 1, "collapse": 2, "blank_depth": 1, "chance": 0.01, "constant": True}
    rows = [{"id": str(i), "depth": 8 + i % 2, "correct": True, **columns} for i in range(10)]
    runs = [read(folder).with_set("blanks", table_of(rows)) for folder in folders[:2]]
    first, five = completion.draw_groups({"A": runs}).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in first.get_lines()}
    assert lines == {"A (2 seeds)": [100, 100], "chance": [1, 1], "always the most frequent value": [100, 100]}
    assert "chance 1.0 %" in first.get_title() and "10 blanks" in first.get_ylabel()
    assert [line.get_label() for line in five.get_lines()] == ["A (2 seeds)"]


def test_usage_is_drawn_over_the_numbers_of_the_paper(folders):
    rows = [{"id": str(i), "depth": 3, "correct": None, "usage": 1.5, "top": 2.0} for i in range(30)]
    groups = {"Tree-SMU, 2 rows": [read(folder).with_set("usage", table_of(rows)) for folder in folders[:2]]}
    for axes, ours in zip(usage.draw_groups(groups, {"Tree-SMU, 2 rows": {3: 0.05, 4: 0.31}}).axes, (1.5, 2.0), strict=True):
        lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}
        assert lines == {"Tree-SMU, 2 rows (2 seeds)": ([3], [ours]), usage.PAPER: ([3, 4], [0.05, 0.31])}


@pytest.mark.parametrize("name", plots.figures())
def test_every_figure_is_drawn_as_svg_and_png(tmp_path, folders, name):
    if name == "confusion":
        for folder in folders:
            give_classes(Run(folder))
    if name == "equations":
        folders = [write_manifest(tmp_path / "data", "paper", {1: 3, 2: 40})]
    svg, png = plots.plot(name, folders, tmp_path / "figure.svg")
    before = svg.read_bytes()
    assert before.startswith(b"<?xml") and png.read_bytes().startswith(b"\x89PNG")
    plots.plot(name, folders, tmp_path / "figure")
    assert svg.read_bytes() == before


def test_depth_curve_is_a_group_by_over_records(folders):
    runs = [read(folder) for folder in folders]
    curve = depth.large_depths(runs[0])
    assert list(curve) == [1, 2, 3, 4, 5]  # depth 6 has too few equations
    assert curve[2].equals(runs[0].of("test", (2, 2)))
    lines = {line.get_label(): line.get_ydata() for line in depth.draw(runs).axes[0].get_lines()}
    assert set(lines) == {f"Tree-SMU, {name} (3 seeds)" for name in ("small", "other")} | {CHANCE}
    assert lines["Tree-SMU, small (3 seeds)"][1] == pytest.approx(
        sum(records.accuracy(run.of("test", (2, 2))) for run in runs[:3]) / 3
    )
    assert list(lines[CHANCE]) == [50] * 5


def test_every_configuration_has_a_line_of_its_own_by_the_name_of_its_model(tmp_path, folders):
    config = configuration.load(folders[0] / "config.toml")
    for models, labels in [
        ("tree_smu tree_smu", ["Tree-SMU, a", "Tree-SMU, b"]),
        ("tree_rnn_stack tree_lstm", ["Tree-RNN+stack", "Tree-LSTM"]),
        ("mtree_lstm_first_order", ["MTree-LSTM, first order"]),
    ]:
        named = [
            dataclasses.replace(config, name=name, model=dataclasses.replace(config.model, name=model, settings={}))
            for name, model in zip("ab", models.split(), strict=False)
        ]
        runs = [read(fake_run(tmp_path / f"{models}-{i}", c, 0, 1.0)) for i, c in enumerate(named)]
        drawn = {line.get_label().removesuffix(" (1 seed)") for line in depth.draw(runs).axes[0].get_lines()}
        assert drawn == {*labels, CHANCE}


def test_a_model_has_one_name_and_one_colour_everywhere():
    assert {*_style.MODELS} <= {*cells.models(), *encoders.encoders(), "list_rnn"}
    assert [_style.name_of(name) for name in ("tree_smu", "tree_smu_top2", "mine")] == ["Tree-SMU", "Tree-SMU, top2", "mine"]
    models = {"Tree-SMU, 1 row": "tree_smu", "Tree-SMU": "tree_smu", "Tree-LSTM": "tree_lstm", "mine": "mine"}
    styles = _style.styles_of(models)
    for model in ("tree_smu", "tree_lstm"):
        name, colour, marker = _style.MODELS[model]
        assert (styles[name]["color"].upper(), styles[name]["marker"]) == (colour, marker)
    assert len({style["color"] for style in styles.values()}) == 4


def test_runs_of_a_file_of_records_are_drawn(folders, tmp_path):
    path = tmp_path / "records.parquet"
    archive.write(path, [run_result.with_origin(read(folder)) for folder in folders[:3]])
    (of_file, _), (of_folders, _) = (
        [path.read_bytes() for path in plots.plot("summary", paths, tmp_path / name)]
        for name, paths in (("a", [path]), ("b", folders[:3]))
    )
    assert of_file == of_folders


def test_the_learning_curve_has_a_panel_per_part_and_a_point_per_size(tmp_path, folders):
    config = configuration.load(folders[0] / "config.toml")
    other = dataclasses.replace(config, name="lstm", model=dataclasses.replace(config.model, name="tree_lstm"))
    groups = {
        "A": folders[:3],
        "B, 10 %": [fake_run(tmp_path / f"lstm-{seed}", other, seed, 0.7) for seed in (0, 1)],
        "A, 100 %": [fake_run(tmp_path / "larger", dataclasses.replace(config, name="larger"), 0, 1.0, 400)],
    }
    runs = {label: [read(folder) for folder in group] for label, group in groups.items()}
    deep = {label: [run.with_set("deep 8-19", run.of("test")[::2]) for run in group] for label, group in runs.items()}
    panels = {axes.get_title(): axes for axes in learning_curve.draw_groups(deep).axes}
    assert set(panels) == {"validation", "test, depth 1-3", "test, depth 4-6", "deep 8-19"}
    assert [label.get_text() for label in panels["validation"].get_xticklabels()] == ["100", "400"]
    points = {bar.get_label(): bar[0] for bar in panels["validation"].containers}
    assert {"Tree-SMU", "Tree-LSTM"} < set(points)
    rows = {row["run"]: row["validation"][0] for row in report.tabulate([*groups["A"], *groups["A, 100 %"]])}
    assert list(points["Tree-SMU"].get_xdata()) == [100, 400]
    assert list(points["Tree-SMU"].get_ydata()) == [rows["small"], rows["larger"]]
    accuracies = [records.accuracy(run.of("test")[::2]) for run in runs["B, 10 %"]]
    points = {bar.get_label(): bar[0] for bar in panels["deep 8-19"].containers}
    assert list(points["Tree-LSTM"].get_ydata()) == [pytest.approx(sum(accuracies) / 2)]
    deep["B, 10 %"] = runs["B, 10 %"]
    assert "deep 8-19" not in [axes.get_title() for axes in learning_curve.draw_groups(deep).axes]


def test_the_curve_of_training_ends_at_the_mean_of_the_best_epochs(folders):
    runs = [read(folder) for folder in folders[:2]]
    accuracies = ([60.0, 70.0, 65.0], [50.0, 60.0, 70.0, 80.0, 90.0, 80.0])  # best in epochs 2 and 5
    for run, of_run in zip(runs, accuracies, strict=True):
        rows = [{"epoch": epoch, "validation_accuracy": accuracy} for epoch, accuracy in enumerate(of_run, 1)]
        object.__setattr__(run, "rows", rows)
    (line,) = epochs.draw(runs).axes[0].get_lines()
    assert list(line.get_xdata()) == [1, 2, 3, 4] and list(line.get_ydata()) == [55, 65, 67.5, 75]


def test_equations_by_depth_stand_beside_the_papers(tmp_path):
    counts = ({3: 10, 20: 7}, {3: 2})
    manifests = [read_manifest(write_manifest(tmp_path / str(i), "deep", depths)) for i, depths in enumerate(counts)]
    manifests[1]["files"]["candidates.jsonl.gz"] = {"by depth and label": {"1": {"None": 50}}}  # no equations
    (axes,) = equations.draw(manifests).axes
    papers, ours, others = axes.containers
    assert [bar.get_height() for bar in papers] == list(COUNTS.values())
    assert [bar.get_height() for bar in ours] == [20, 14] and ours.get_label() == "deep (34)"
    assert [bar.get_height() for bar in others] == [4] and others.get_label() == "deep (4)"


@pytest.mark.parametrize("content", [None, "{", "[]", '{"preset": 3}', '{"preset": "a", "files": 1}'])
def test_a_folder_without_a_manifest_is_one_error(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match="There is no manifest" if content is None else "manifest is damaged"):
        plots.plot("equations", [tmp_path], tmp_path / "a.svg")


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_a_table_shows_any_metric_and_every_depth(folders, metric):
    (row,) = report.tabulate(folders[:3], metric, depths=True)
    runs = [read(folder) for folder in folders[:3]]
    for depth_of_column in range(1, 7):
        values = [METRICS[metric](run.of("test", (depth_of_column, depth_of_column))) for run in runs]
        numbers = [value for value in values if not math.isnan(value)]
        assert (str(depth_of_column) in row) == bool(numbers)
        if numbers:
            assert row[str(depth_of_column)][0] == pytest.approx(statistics.fmean(numbers))


def test_table(folders):
    rows = report.tabulate(folders)
    assert [(row["run"], row["seeds"]) for row in rows] == [("small", [0, 1, 2]), ("other", [0, 1, 2])]
    assert rows[0]["best epoch"] == (2, 0)
    inside, beyond = rows[0]["test, depth 1-3"], rows[0]["test, depth 4-6"]
    assert inside[0] > beyond[0] and inside[1] > 0
    text = report.markdown(rows)
    assert text.startswith("| run | model | equations | seeds | metric | best epoch | train | validation | test, depth 1-3 |")
    assert f"{inside[0]:.1f} ± {inside[1]:.1f}" in text
    single = report.tabulate(folders[:1], "f1")  # training keeps its accuracy alone
    assert single[0]["metric"] == "f1" and "train" in rows[0] and "train" not in single[0]
    assert "| f1 | 2 |" in report.markdown(single)
    small, _ = csv.DictReader(io.StringIO(report.csv(rows)))
    assert float(small["validation"]) == rows[0]["validation"][0] and {"validation sd", "seeds"} <= small.keys()
    assert_raises(ConfigurationError, "Unknown metric 'acuracy'", report.tabulate, folders, "acuracy")


def test_a_table_on_other_data_says_how_models_differ(folders, tmp_path, treestack):
    compare = ("--on", tmp_path / "other.jsonl", "--compare")
    (tmp_path / "other.jsonl").write_text("{}")
    for folder in folders:
        run = Run.open(folder)
        run.write_records(str(tmp_path / "other.jsonl"), read(folder).of("test")[::2].drop("set"))
    table, paragraph, behind = treestack("report", *folders, *compare, "--output", tmp_path / "table.md").strip().split("\n\n")
    assert (tmp_path / "table.md").read_text() == f"{table}\n\n{paragraph}\n\n{behind}\n"
    of_files = [read(folder, str(tmp_path / "other.jsonl")) for folder in folders]
    means = [statistics.fmean(records.accuracy(run.of("test")) for run in of_files[i : i + 3]) for i in (0, 3)]
    assert f"behind small, the most accurate on these records ({len(of_files[0].of('test'))} records)" in paragraph
    cells = behind.splitlines()[-1].split(" | ")
    assert cells[0] == "| other" and float(cells[1]) == pytest.approx(means[0] - means[1], rel=0.01) and " to " in cells[2]
    answer = json.loads(treestack("report", *folders, *compare, "--json"))
    assert [line["model"] for line in answer["behind the best"]] == ["small", "other"]
    del folders[3:]
    assert "one configuration only" in treestack("report", *folders, *compare, code=2)
    (tmp_path / "same.jsonl").write_text("{}")
    same, other = (read(folders[0], str(tmp_path / f"{name}.jsonl")).about["checksums"] for name in ("same", "other"))
    assert same == other
    (tmp_path / "other.jsonl").unlink()
    assert_raises(DataError, "evaluate it on the file", plots.plot, "depth", folders, tmp_path / "a.svg", on="nowhere.jsonl")
    assert plots.plot("depth", folders, tmp_path / "a.svg", on=str(tmp_path / "other.jsonl"))


def test_only_answers_to_the_same_trees_are_compared(folders, tmp_path):
    for folder, text in zip(folders, "aabbab", strict=True):
        (tmp_path / "changed.jsonl").write_text(text)
        Run.open(folder).write_records(str(tmp_path / "changed.jsonl"), read(folder).of("test").drop("set"))
    runs = [read(folder, str(tmp_path / "changed.jsonl")) for folder in folders]
    assert_raises(DataError, "small-2: Its records are of other files than those of", report.answers_of_runs, runs)
    names = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    for name in names:
        Path(name).write_text(name)
    folder = fake_run(tmp_path / "both", plain_data.override(runs[0].config, [f"data.test={json.dumps(names)}"]), 0, 0.9)
    Run(folder).write_records(names[1], read(folder, names[0]).of("test").drop("set"))
    result = read(folder)
    assert set(result.of("test")["file"]) == set(names) and len(set(result.about["checksums"])) == 2


@cases(
    ("dept", 1, "svg", "Did you mean 'depth'"),
    ("depth", 1, "pdf", "SVG and PNG"),
    ("depth", 0, "svg", "at least one run"),
    ("depth", 2, "svg", "given twice"),
    ("confusion", 1, "svg", "no labels and answers that are classes"),
)
def test_errors(tmp_path, folders, name, count, suffix, message):
    assert_raises((ConfigurationError, DataError), message, plots.plot, name, folders[:1] * count, tmp_path / f"a.{suffix}")


def test_incomplete_folders_are_one_error(folders):
    """Damaged ones are a campaign of `fuzz`."""
    other = configuration.dump(plain_data.override(configuration.load(folders[0] / "config.toml"), ["schedule.epochs=99"]))
    for name, content, message, make in (
        ("records/sources.json", None, "no records of", report.tabulate),
        ("config.toml", other, "but differs", report.tabulate),
        ("environment.json", '{"seed": 0}', "how many equations", lambda of: learning_curve.draw([read(of[0])])),
    ):
        path = folders[0] / name
        whole = path.read_bytes()
        path.unlink() if content is None else path.write_text(content)
        assert_raises(DataError, message, make, folders)
        path.write_bytes(whole)


def test_runs_with_other_depths_are_drawn_where_they_overlap(folders, tmp_path, caplog):
    plots.plot("depth", folders, tmp_path / "a.svg")
    assert "not drawn, with fewer than 30 trees: depth 6" in caplog.text
    path = folders[0] / "records" / "test.parquet"
    records.write(path, records.read(path).filter(pl.col("depth") > 2))
    (axes,) = depth.draw([read(folder) for folder in folders]).axes
    lines = {line.get_label(): list(line.get_xdata()) for line in axes.get_lines()}
    assert (lines["Tree-SMU, small (3 seeds)"], lines["Tree-SMU, other (3 seeds)"]) == ([3, 4, 5], [1, 2, 3, 4, 5])
    records.write(path, records.read(path)[:20])
    assert_raises(DataError, "30 trees", depth.draw, [read(folders[0])])
    for folder in folders[1:3]:  # whose test sets lie within the training depths
        path = folder / "records" / "test.parquet"
        records.write(path, records.read(path).filter(pl.col("depth") <= 3))
    (row,) = report.tabulate(folders[1:3])
    assert "test, depth 1-3" in row and not any(title.startswith("test, depth 4") for title in row)


def row(depth, label, equations, **verdicts):
    return {"depth": depth, "label": label, "equations": equations, **verdicts}


def test_the_report_of_an_audit_has_a_bar_per_verdict_and_a_panel_of_baselines():
    verdicts = [row(2, 1, 10, holds=9, conditional=1), row(2, 0, 10, refuted=10), row(3, 1, 20, holds=15)]
    score = {"accuracy": 52, "standard_error": 1.5, "setting": "C=1", "above": False}
    leakage = [
        {"depths": "1-2", "used": 20, "majority": 50, "baselines": {"tokens": score, "boosting on all": score}},
        {"depths": "3-4", "equations": 20, "skipped": "20 correct and 0 incorrect"},
    ]
    sets = {
        "train": {"equations": 40, "verdicts": verdicts, "leakage": leakage},
        "unlabelled": {"equations": 3, "verdicts": [row(4, None, 3)]},
    }
    heights = audit.heights(verdicts)
    assert heights["holds"] == {(1, 2): 9, (1, 3): 15, (-1, 2): 0}
    assert heights["refuted"][-1, 2] == 10 and heights["conditional"][1, 2] == 1
    assert heights["not judged"][1, 3] == 5 and "undefined" not in heights
    counts, leakage, unlabelled, nothing = audit.draw_data({"sets": sets}).axes
    assert [bar.get_height() for bar in counts.patches if bar.get_y() < 0 or bar.get_height() < 0] == [-10]
    assert sum(bar.get_height() for bar in counts.patches) == 30 - 10
    assert {*leakage.get_legend_handles_labels()[1]} == {"tokens", "boosting on all", CHANCE}
    assert [tick.get_text() for tick in leakage.get_xticklabels()] == ["1-2"]
    assert unlabelled.get_ylabel() == "equations: unlabelled" and not nothing.axison
    assert len(audit.draw_data({"sets": {"a": sets["unlabelled"]}}).axes) == 1
    assert "audit" not in plots.figures()
