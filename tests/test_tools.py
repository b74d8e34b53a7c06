"""Tools: pages from templates and tables, what evaluation reaches without a network, the check of a device without a GPU."""

import csv
import json
import subprocess

import programs
import pytest
from each_case import assert_raises, cases

from dgl_treestack import Equation, Example
from dgl_treestack.data import formats
from dgl_treestack.errors import DataError
from dgl_treestack.results.report import lines_table
from tools import device_check, exact, page

NUMBERS = """model,measured,paper,paper sd,ours,ours sd,seeds
Tree-LSTM,test 8-13,86.8,0.6,63.65,0.49,0 1 2 3 4
"Tree-LSTM, one seed",test 8-13,,,62.04,,0
Tree-LSTM,best epoch,135,,29.6,13.94,0 1 2 3 4
"""
OTHER_NUMBERS = "model,measured,paper,paper sd,ours,ours sd,seeds\nTree-LSTM,deep,77.58,0.19,59.14,0.25,0 1 2\n"
PAIRS = """set,depths,seeds,first,second,paper,points,interval,"Holm, seeds","Holm, equations"
test,8-13,5,Tree-LSTM,Tree-RNN,2.97,6.04,5.1 to 7.0,0.0006,0.0002
test,8-13,5,Tree-SMU,Tree-LSTM,-1.2,-0.02,-0.9 to 0.7,0.61,0.0002
deep,8-19,5,Tree-SMU,Tree-LSTM,1.53,-2.94,-3.8 to -2.1,0.006,0.0002
blanks,1-19,1,Tree-SMU,Tree-LSTM,,2.3,,,0.12
blanks,1-19,1,Tree-SMU,Tree-RNN,,2.3,,,0.01
"""
COUNTS = 'task,model,"emptied, soft"\nanbn,"Stack RNN, rounded",98.3\nanbn,LSTM,6.78\n'
SEEN = "Tree-SMU and Tree-LSTM differ within noise (+0.0 points, -0.9 to 0.7; the test could have seen 1.3)"
FILLED = {
    "{{ours NUMBERS; Tree-LSTM; test 8-13}}, {{mean NUMBERS; Tree-LSTM; test 8-13}}": "63.6 ± 0.5, 63.6",
    "{{ours NUMBERS; Tree-LSTM, one seed; test 8-13; 2}}": "62.04",
    "{{paper NUMBERS; Tree-LSTM; best epoch}} and {{paper NUMBERS; Tree-LSTM, one seed; test 8-13}}": "135 and -",
    "{{cell COUNTS; task=anbn, model=Stack RNN, rounded; emptied, soft; 0}}": "98",
    "{{rows NUMBERS; Tree-LSTM | Tree-LSTM, one seed; paper test 8-13 | test 8-13 | OTHERS: deep}}": """\
| Tree-LSTM | 86.8 | 63.6 ± 0.5 | 59.1 ± 0.2 |
| Tree-LSTM, one seed | - | 62.0 | - |""",
    "{{points NUMBERS; test; Tree-LSTM; Tree-RNN}}, {{claimed NUMBERS; test; Tree-LSTM; Tree-RNN}}": "+6.0 (5.1 to 7.0), +2.97",
    "{{points NUMBERS; test; Tree-SMU; Tree-LSTM; 8-13}}": "+0.0 (-0.9 to 0.7), noise < 1.3",
    "{{lead NUMBERS; test; Tree-LSTM; Tree-RNN}}": "Tree-LSTM is ahead of Tree-RNN by 6.0 points (5.1 to 7.0)",
    "{{lead NUMBERS; deep; Tree-SMU; Tree-LSTM}}": "Tree-SMU is behind Tree-LSTM by 2.9 points (2.1 to 3.8)",
    "{{lead NUMBERS; blanks; Tree-SMU; Tree-LSTM}}": "Tree-SMU and Tree-LSTM differ within noise (+2.3 points, one seed)",
    # 1.3: by the t-distribution with four degrees of freedom, for two pairs, 0.8 / 2.776 * (3.495 + 0.941)
    "{{lead NUMBERS; test; Tree-SMU; Tree-LSTM}}": SEEN,
    "{{lead NUMBERS; blanks; Tree-SMU; Tree-RNN}}": "Tree-SMU is ahead of Tree-RNN by 2.3 points",
    "{{verdict NUMBERS; test; Tree-LSTM; Tree-RNN}}, {{verdict NUMBERS; test; Tree-SMU; Tree-LSTM}}": "reproduced, not",
    "{{verdict NUMBERS; deep; Tree-SMU; Tree-LSTM}}, {{verdict NUMBERS; blanks; Tree-SMU; Tree-RNN}}": "opposite, reproduced",
}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "ROOT", tmp_path)
    page._lines.cache_clear()
    for name, file, text in (
        *(("NUMBERS", "table.csv", NUMBERS), ("NUMBERS", "pairs.csv", PAIRS)),
        *(("OTHERS", "table.csv", OTHER_NUMBERS), ("COUNTS", "table.csv", COUNTS)),
    ):
        path = tmp_path / "figures" / "day" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield tmp_path
    page._lines.cache_clear()


@pytest.mark.parametrize("call", FILLED)
def test_sentences_say_what_the_numbers_say(call, tables):
    assert page.fill(f"Before {call}, {{after}}", tables / "results.md") == f"Before {FILLED[call]}, {{after}}"


@cases(
    ("{{ours NUMBERS; Tree-LSTM; test 8-14}}", "0 lines of NUMBERS/table.csv"),
    ("{{ours NOTHING; Tree-LSTM; test 8-13}}", "No such file"),
    ("{{theirs NUMBERS; Tree-LSTM; test 8-13}}", "KeyError"),
    ("{{claimed NUMBERS; blanks; Tree-SMU; Tree-LSTM}}", "TypeError"),
)
def test_a_call_without_a_number_is_refused(tables, call, message):
    assert_raises(DataError, f"results.md:2: {call}: .*{message}", page.fill, f"one\ntwo {call}", tables / "results.md")


def test_committed_pages_are_what_the_command_writes():
    contents = dict(page.pages())
    assert {path.name for path in contents} == {"README.md", "results.md", "beyond.md"}
    for path, content in contents.items():
        assert path.read_text() == content, f"{path.name}: edit the template in tools/pages, then run `python -m tools.page`"
        assert len(content.encode()) <= 1000 * {"results.md": 20, "beyond.md": 8}.get(path.name, 20), "a page is short"


def test_a_table_of_pairs_has_the_papers_numbers_with_all_digits():
    line = {"first": "Tree-SMU", "paper": 17.45, "points": 7.398056, "Holm, seeds": None, "unit": "equations", "permuted": ""}
    assert lines_table([line]).splitlines()[-1] == "| Tree-SMU | 17.45 | 7.4 | - |"


EQUATIONS = {"x + y = y + x": 1, "sin(x) = cos(x)": 0, "1/(x - x) = y": 0, "sin(x)**2 + cos(x)**2 = 1": 1, "x**2 = x*y": 1}


def test_sides_that_differ_at_a_point_are_no_equation(tmp_path, monkeypatch):
    """The third is undefined at every point, and the label of the last is wrong."""
    examples = [Example(Equation.parse(text), label, id=text) for text, label in EQUATIONS.items()]
    for name in ("paper", "deep"):
        (tmp_path / name).mkdir()
        formats.write(tmp_path / name / "test.jsonl.gz", examples)
    monkeypatch.setattr(exact, "SETS", {"test": ("paper", (1, 9)), "deeper": ("deep", (4, 9))})
    monkeypatch.setattr(exact, "OUTPUT", tmp_path / "table.csv")
    exact.main(tmp_path)
    rows = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    lines = {(line["measured"], line["model"]): line["ours"] for line in rows}
    assert lines["test", "exact evaluation, trusted"] == "60.0" and lines["test", "no trusted point"] == "20.0"
    assert lines["test", "exact evaluation, ignoring doubt"] == "60.0"
    assert lines["deeper", "exact evaluation, trusted"] == "50.0", "two are of depth 4"


@pytest.mark.slow
def test_the_check_of_a_device_runs_on_a_cpu(tmp_path, capsys, monkeypatch):
    """Its first part in a process as on a GPU, the others in processes that need not load the libraries."""
    output, real = tmp_path / "report.json", subprocess.run

    def run(command, **options):
        is_first = "--part" not in command or "kernels" in command
        return real(command, **options) if is_first else programs.run("tools.device_check", command[3:], tmp_path)

    monkeypatch.setattr(subprocess, "run", run)
    assert device_check.main("cpu", str(output), "--small") == 0
    report = json.loads(output.read_text())
    assert device_check.PARTS.keys() <= report.keys()
    assert all(row["ok"] for name in ("equal numbers", "equal trainings") for row in report[name])
    assert "steps  model tree_rnn  data bundled  batch 32" in capsys.readouterr().out
