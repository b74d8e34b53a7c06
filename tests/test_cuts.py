from dataclasses import replace

import pytest

from dgl_treestack.data import formats
from dgl_treestack.data.formats import read
from dgl_treestack.data.records import accuracy
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression import Expression
from dgl_treestack.generate.presets import SetOptions
from dgl_treestack.generate.production import produce
from dgl_treestack.resources import find_data
from dgl_treestack.results import archive, report
from dgl_treestack.results.run_result import read as read_result
from dgl_treestack.training.start import start
from dgl_treestack.truth import is_on_cut
from dgl_treestack.truth.evaluation import evaluate_sides
from tests.small_runs import small_config, small_run

ON_CUT = ["log(-1) = x", "sqrt(-(x**0)) = 1", "acos(2) = x", "acosh(1) = 0", "log(x - x - 3) = 1", "sqrt(0) = 0"]
ON_CUT += ["(-1)**x = 1"]  # a power is exp(x*log(-1))
ON_CUT += ["asin(1) = pi/2", "asec(1/2) = 1"]  # a branch point; acos(2)
ON_CUT += ["asin(sin(x)**2 + cos(x)**2) = pi/2"]  # 1 at every point, but for rounding
ON_CUT += ["log(log(exp(x)) - x - 1) = 2"]  # -1 where x is in the strip of the logarithm
ON_CUT += ["asech(sin(asin(acosh(4)))) = acosh(1/acosh(4))"]
ELSEWHERE = ["sqrt(x) = x**(1/2)", "x**2 = x*x", "(-2)**3 = -8", "log(1) = 0", "sqrt(4) = 2", "acosh(5) = 1", "acot(x) = 1"]
ELSEWHERE += ["asech(1/5) = 1"]


@pytest.mark.parametrize("text", (*ON_CUT, *ELSEWHERE))
def test_on_a_cut_or_not(text):
    assert is_on_cut(*evaluate_sides(Expression.parse(text))) == (text in ON_CUT)


def test_bundled_certificates_say_it():
    examples = list(read(find_data("bundled:quickstart/validation")))[::10]
    for example in examples:
        assert example.certificate.get("cut", False) == is_on_cut(*evaluate_sides(example.equation)), example.id


@pytest.mark.slow
def test_generation_marks_pairs_or_leaves_them_out(tmp_path):
    for no_cuts in (False, True):
        folder = tmp_path / str(no_cuts)
        manifest = produce("paper", SetOptions(seed=5, equations=300, no_cuts=no_cuts), folder)
        marked = [example for path in folder.glob("*.jsonl.gz") for example in read(path) if "cut" in example.certificate]
        counts = [entry.get("on a branch cut, by depth", {}) for entry in manifest["files"].values()]
        assert sum(sum(by_depth.values()) for by_depth in counts) == len(marked)
        assert (marked == []) == no_cuts


def test_records_and_tables_without_them(tmp_path):
    with pytest.raises(ConfigurationError, match="No record is of an equation on a branch cut"):
        report.tabulate([small_run(tmp_path).folder], cuts=False)
    config = small_config(tmp_path)
    for kind in ("validation", "test"):
        path = tmp_path / f"{kind}.jsonl"
        examples = [replace(e, certificate={"cut": True} if i % 3 == 0 else {}) for i, e in enumerate(read(path))]
        formats.write(path, examples)
    run = start(config, 0, tmp_path / "runs")
    result = read_result(run.folder)
    assert result.of("test")["cut"].to_list() == [i % 3 == 0 for i in range(160)]
    archive.write(tmp_path / "records.parquet", [result])
    (stored,) = archive.read(tmp_path / "records.parquet")
    assert stored.of("test")["cut"].equals(result.of("test")["cut"])
    (row,) = report.tabulate([run.folder], cuts=False)
    validation = result.of("validation")
    assert row["validation"][0] == pytest.approx(accuracy(validation.filter(~validation["cut"])))
