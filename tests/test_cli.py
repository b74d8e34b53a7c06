"""The command line as a person meets it."""

import json
import sys
from pathlib import Path

import programs
import pytest
from each_case import cases
from small_runs import small_config

from dgl_treestack import __version__, cli
from dgl_treestack.data import formats, records
from dgl_treestack.runs import configuration

COMMANDS = sorted(path.stem.replace("_", "-") for path in Path(cli.__file__).parent.glob("[a-z]*.py"))


def treestack(*arguments, folder="."):
    """Run the command in a process of its own; return what it printed."""
    result = programs.run("dgl_treestack", arguments, folder)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def call(treestack, folder, monkeypatch):
    """`treestack` in that folder, without a process of its own, for what a test asks beyond its first."""
    monkeypatch.chdir(folder)
    return treestack


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a configuration, data and one trained run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "small.toml").write_text(configuration.dump(small_config(folder)))
    treestack("train", "small.toml", "--quiet", folder=folder)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_nothing_needless(command, call):
    """That it loads no library: test_layers."""
    text = call(command, "--help")
    assert command in call("--help") and (command != "train" or "--resume" in text)
    for needless in ("{None}", "--no-no-", "--no-json", "default: )", "default: '')", "default: None", "default: False"):
        assert needless not in text


def test_predict_and_verify_show_probability_and_answer(folder, call):
    text = call("predict", "-x = x - 2*x", "--run", "runs/small-0")
    assert text.split()[:3] == ["P(correct)", "answer", "equation"]
    probability, answer, equation = text.splitlines()[1].split(maxsplit=2)
    assert 0 < float(probability) < 1 and equation == "-x = x - 2*x"
    assert answer == ("correct" if float(probability) > 0.5 else "incorrect")
    answer = json.loads(call("verify", "sin(x)**2 + cos(x)**2 = 1", "--run", "runs/small-0", "--json"))
    assert answer["verdict"] == "holds" and 0 < answer["probability"] < 1 and answer["agree"] == (answer["probability"] > 0.5)
    texts = [call("verify", text, "--run", "runs/small-0") for text in ("x = x", "x = x + 1")]
    assert all("P(correct) = " in text for text in texts)
    assert any("disagree" in text for text in texts) or answer["agree"]


def test_the_packages_model_answers_without_training(folder, call):
    text = treestack("complete", "sin(x)**2 + _ = 1", "--top", 3, folder=folder)
    answers = json.loads(call("complete", "sin(x)**2 + _ = 1", "--json"))
    verdict = call("verify", "sin(x)**2 + cos(x)**2 = 1")
    assert "filler" in text and "certified equations of depth 1-7" in text and "certified equations" in verdict
    assert len(answers) == 10 and {answer["verdict"] for answer in answers} >= {"refuted"}
    ranks = call("complete", "bundled:quickstart/blanks", "--output", "ranks.jsonl")
    assert ranks.split()[:2] == ["depth", "blanks"] and ranks.splitlines()[-1].split()[:2] == ["all", "72"]
    assert len(json_lines(folder / "ranks.jsonl")) == 72


def test_version_doctor_and_cells(call):
    assert call("--version").strip() == __version__
    report = json.loads(treestack("doctor", "--json"))
    assert report["problems"] == [] and report["dgl"]["works"] is (sys.version_info < (3, 13))  # there is none for later ones
    assert call("doctor").startswith("all is well\n")
    rows = {row["name"]: row for row in json.loads(call("cells", "--json"))}
    assert rows["tree_smu"]["state"] == 50 + 5 * 50
    assert rows["tree_lstm"]["parameters"] > rows["tree_rnn"]["parameters"] and "Arabshahi 2020" in call("cells")


@pytest.mark.slow
def test_train_several_seeds_as_processes_then_table_and_figure(folder):
    treestack("train", "small.toml", "--seeds", 0, 1, "--jobs", 2, "--threads", 2, "--resume", "--quiet", folder=folder)
    assert (folder / "runs" / "small-1" / "DONE").exists()
    assert "| small | tree_smu | 44 | 0 1 |" in treestack("report", "runs/small-0", "runs/small-1", folder=folder)
    rows = json.loads(treestack("report", "runs/small-0", "--json", "--output", "table", "--metric", "f1", folder=folder))
    assert (folder / "table.md").read_text().startswith("| run |") and (folder / "table.csv").read_text().startswith("run,")
    assert rows[0]["seeds"] == [0]


def test_evaluate_writes_a_record_per_equation_and_scores_files_one_by_one(folder, call):
    treestack("evaluate", "runs/small-0", "test.jsonl", "--output", "out.jsonl", "--precision", "float64", folder=folder)
    rows = json_lines(folder / "out.jsonl")
    assert [row["id"] for row in rows] == [example.id for example in formats.read(folder / "test.jsonl")]
    assert rows == records.rows_of(table := records.read(folder / "runs" / "small-0" / "records" / "test.parquet"))
    assert all((row["score"] > 0) == (row["correct"] == bool(row["label"])) for row in rows)
    shown = json.loads(call("evaluate", "runs/small-0", "test.jsonl", "--json"))
    assert (shown["equations"], shown["accuracy"]) == (160, pytest.approx(records.accuracy(table)))
    (folder / "few.jsonl").write_text("".join((folder / "test.jsonl").read_text().splitlines(keepends=True)[:40]))
    files = ("few.jsonl", "test.jsonl")
    both = json.loads(call("evaluate", "runs/small-0", *files, "--json"))
    assert both == [json.loads(call("evaluate", "runs/small-0", name, "--json")) for name in files]
    assert [score["equations"] for score in both] == [40, 160]
    text = call("evaluate", "runs/small-0", *files)
    assert "few.jsonl: 40 equations" in text and "test.jsonl: 160 equations" in text


@cases(
    (("verify", "__import__('os').system('touch ran')", "--run", "runs/small-0"), "Only calls such as sin(x)"),
    (("verfy", "x = x"), "Did you mean 'verify'?"),
    (("verify", "x + _ = 1", "--run", "runs/small-0"), "blank"),
    (("complete", "_ = x", "--top", "0"), "--top 0 shows nothing"),
    (("complete", "nowhere.jsonl", "--run", "runs/small-0"), "nowhere.jsonl: "),
    (("train", "quickstart/tree_smuu"), "Did you mean 'quickstart/tree_smu'"),
    (("train", "small.toml"), "--resume"),
    (("train", "small.toml", "small.toml", "--set", "name=n0"), "Two configurations have the same name"),
    (("evaluate", "runs/small-0", "test.jsonl", "--jobs", "0"), "The number of jobs is 0; at least one is needed"),
    (("evaluate", "runs/small-0", "variable.jsonl"), "variable.jsonl:2: The vocabulary has no row for Symbol 'theta'"),
    (("evaluate", "runs/small-0", "empty.jsonl"), "no examples"),
    (("evaluate", "runs/small-0", "bad.jsonl", "test.jsonl", "--output", "a.jsonl"), "in turn"),
    (("evaluate", "runs/small-0"), "Name at least one"),
    (("evaluate", "runs/small-0", "test.jsonl", "--output", "/proc/x.jsonl"), "cannot be written"),
    (("train", "small.toml", "--seed", "-1"), "Seeds are whole numbers from 0"),
    (("train", "small.toml", "--threads", "-1"), "--threads must be at least 0, not -1"),
    (("train", "small.toml", "--output-dir", "small.toml"), "cannot be written"),
    (("audit", "test.jsonl", "--figure", "a.pdf"), "SVG and PNG"),
    (("report",), "at least one run"),
    (("report", "a" * 300), "Give a shorter one"),
    (("generate", "quickstart", "--output-dir", "a" * 300), "Give a shorter one"),
    (("inspect", "bundled:quickstart/tran"), "Did you mean 'bundled:quickstart/train'"),
)
def test_bad_input_is_one_clear_error_and_exit_code_2(folder, call, arguments, message):
    equation = '{"id": "a", "label": 1, "text": "x = x"}\n'
    unheard = equation.replace('"a"', '"b"').replace("x = x", "theta = x")
    files = {"bad": equation.replace("label", "lable"), "variable": equation + unheard, "empty": ""}
    for name, text in files.items():
        (folder / f"{name}.jsonl").write_text(text)
    assert message in call(*arguments, code=2) and not (folder / "ran").exists()
