from dgl_treestack import plots
from dgl_treestack.plots import audit


def row(depth, label, equations, **verdicts):
    return {"depth": depth, "label": label, "equations": equations, **verdicts}


def score(accuracy):
    return {"accuracy": accuracy, "standard_error": 1.5, "setting": "C=1", "above": False}


REPORT = {
    "sets": {
        "train": {
            "equations": 40,
            "verdicts": [row(2, 1, 10, holds=9, conditional=1), row(2, 0, 10, refuted=10), row(3, 1, 20, holds=15)],
            "leakage": [
                {"depths": "1-2", "used": 20, "majority": 50, "baselines": {"tokens": score(52), "boosting on all": score(57)}},
                {"depths": "3-4", "equations": 20, "skipped": "20 correct and 0 incorrect"},
            ],
        },
        "unlabelled": {"equations": 3, "verdicts": [row(4, None, 3)]},
    }
}


def test_bars_are_the_counts_correct_ones_upwards():
    heights = audit.heights(REPORT["sets"]["train"]["verdicts"])
    assert heights["holds"] == {(1, 2): 9, (1, 3): 15, (-1, 2): 0}
    assert heights["refuted"][-1, 2] == 10 and heights["conditional"][1, 2] == 1
    assert heights["not judged"][1, 3] == 5 and "undefined" not in heights


def test_panels():
    figure = audit.draw_data(REPORT)
    counts, leakage, unlabelled, nothing = figure.axes
    assert [bar.get_height() for bar in counts.patches if bar.get_y() < 0 or bar.get_height() < 0] == [-10]
    assert sum(bar.get_height() for bar in counts.patches) == 30 - 10
    assert {text.get_text() for text in leakage.get_legend().get_texts()} == {"tokens", "boosting on all", "commoner label"}
    assert [tick.get_text() for tick in leakage.get_xticklabels()] == ["1-2"]
    assert unlabelled.get_ylabel() == "equations: unlabelled" and not nothing.axison
    assert len(audit.draw_data({"sets": {"a": REPORT["sets"]["unlabelled"]}}).axes) == 1


def test_it_is_written_but_not_a_figure_of_runs(tmp_path):
    svg, png = plots.draw_data("audit", REPORT, tmp_path / "audit")
    assert svg.read_bytes().lstrip().startswith(b"<?xml") and png.read_bytes().startswith(b"\x89PNG")
    assert "audit" not in plots.figures()
