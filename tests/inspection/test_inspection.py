"""Files of equations looked into: counts, pictures, and what models do inside them."""

import dataclasses
import json
import struct

import numpy as np
import pytest
from each_case import assert_raises
from small_runs import small_run

from dgl_treestack import Equation, Example, Expression, Operator, Run, Signature, TreestackError, propagate
from dgl_treestack.cli.inspect import inspect
from dgl_treestack.data import formats, records
from dgl_treestack.data.graph import from_expressions
from dgl_treestack.errors import DataError
from dgl_treestack.inspection import drawing, trace_views, traces
from dgl_treestack.runs import pretrained
from dgl_treestack.runs.evaluation import evaluate

TEXTS = ["sin(x)**2 + cos(x)**2 = 1", "x + 0 = y", "2*x = x + x"]

SMU = pretrained.FOLDER / "tree_smu"


@pytest.fixture
def file(tmp_path):
    formats.write(tmp_path / "a.jsonl", [Example(Equation.parse(text), int(i != 1), f"e{i}") for i, text in enumerate(TEXTS)])
    return tmp_path / "a.jsonl"


@pytest.fixture(scope="module")
def rnn(tmp_path_factory):
    """A Tree-RNN with a stack of three rows, one gate per action."""
    model = {"name": "tree_rnn_stack_noop", "hidden": 4, "settings": {"stack_size": 3}}
    return small_run(tmp_path_factory.mktemp("rnn"), model=model, schedule={"epochs": 1})


def test_wrong_arguments_are_refused_before_anything_is_printed(file, tmp_path, capsys):
    for message, options in (
        ("--limit -1 is negative", {"limit": -1}),
        ("No equation has the id 'e9'", {"equation": "e9"}),
        (r"\.png or \.svg", {"output": tmp_path / "t.pdf"}),
        ("Name their run folders", {"html": tmp_path / "page.html"}),
        ("same name", {"run": (SMU, SMU)}),
    ):
        assert_raises(TreestackError, message, inspect, str(file), json=True, **options)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("text", "message"), [("theta = x", "no row for Symbol 'theta'"), ("_ = x", "A blank")])
def test_a_leaf_outside_the_vocabulary_is_named_with_file_and_line(tmp_path, text, message):
    path = tmp_path / "a.jsonl"
    formats.write(path, [Example(Equation.parse(t), None, f"e{i}") for i, t in enumerate(["x = x", text, "y = y"])])
    with pytest.raises(DataError, match=message) as caught:
        inspect(str(path), limit=0)
    assert str(caught.value).startswith(f"{path}:2: ")
    inspect(str(path), limit=1)


def test_a_picture_has_at_most_8000_pixels_a_side_and_text_is_never_read_as_mathematics(tmp_path, monkeypatch):
    def comb(count):
        """A tree as wide and as deep as so many operators can make it."""
        return Expression.from_prefix("Add Symbol:x " * count + "Symbol:x")

    figure = drawing.draw(comb(248))
    assert max(figure.get_size_inches()) * figure.dpi == pytest.approx(8000) and drawing.draw(comb(3)).dpi == 150
    assert_raises(DataError, "of 503 nodes cannot be drawn", drawing.draw, comb(251))
    monkeypatch.setattr(drawing, "MAX_PIXELS", 600)
    formats.write(tmp_path / "a.jsonl", [Example(Equation.of(comb(20), Expression.parse("y")), 0, "comb")])
    inspect(str(tmp_path / "a.jsonl"), output=tmp_path / "t.png")
    assert 590 <= max(struct.unpack(">II", (tmp_path / "t.png").read_bytes()[16:24])) <= 600
    signature = Signature("money", (Operator("$\\frac$", 2), Operator("$", 1)))
    tree = Expression.from_prefix("$\\frac$ $ Symbol:x Pi", signature)
    drawing.draw(tree, title="$\\frac$").savefig(tmp_path / "t.svg")


def test_words_of_many_bytes_are_shortened_on_the_screen_alone(tmp_path, capsys):
    words = [f"http://www.example.org/a/very/long/address/of/a/film/review/page{i}.html" for i in range(2)] + ["字" * 90]
    path = tmp_path / "a.txt"
    path.write_text("".join(f"(3 (2 see) (3 {word}))\n" for word in words))
    inspect(str(path), language="sentiment")
    shown = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("  Word ")]
    assert shown == ["see", *[words[0][:54] + "…"] * 2, "字" * 54 + "…"]
    inspect(str(path), language="sentiment", json=True)
    assert json.loads(capsys.readouterr().out)["leaf_texts"] == {"Word see": 3, **{f"Word {word}": 1 for word in words}}
    inspect(str(path), language="sentiment", output=tmp_path / "a.graphml")
    assert words[0] in (tmp_path / "a.graphml").read_text()


def test_states_and_gates_are_those_of_a_sweep(file):
    run, examples = Run.open(SMU), list(formats.read(file))
    model = run.load_model()
    for trace, example in zip(traces.make(run, examples), examples, strict=True):
        batch = from_expressions([example.equation], model.vocabulary)
        propagate.propagate(batch, model.cell, engine="topo", signals=["push", "forget"])
        np.testing.assert_allclose(trace.h, batch.ndata["h"].detach(), atol=1e-5)
        np.testing.assert_allclose(trace.stacks["stack"].reshape(len(trace.h), -1), batch.ndata["stack"].detach(), atol=1e-5)
        for node in range(example.equation.size):
            silent = node == 0 or example.equation.texts[node] is not None
            assert np.isnan([values[node] for values in trace.actions.values()]).all() == silent
            if not silent:
                mean = float(batch.ndata["signal/push"][node].detach().mean())
                assert trace.gates["push"][node] == pytest.approx(mean, abs=1e-5)
                assert sum(values[node] for values in trace.actions.values()) == pytest.approx(1, abs=1e-5)
        assert trace.gates["forget"].shape == (example.equation.size, 2)
        assert trace.sides()["dot"] + model.heads["verification"].bias.item() == pytest.approx(trace.record["score"], abs=1e-4)


def test_scores_are_those_of_the_records_of_the_same_file(file, rnn, tmp_path):
    table = evaluate(rnn, str(file))
    rows = table.rows(named=True)
    assert [trace.record for trace in traces.make(rnn, list(formats.read(file)))] == rows
    records.write(rnn.folder / "records" / "a.parquet", table.with_columns(score=7.5))
    assert {trace.record["score"] for trace in traces.make(rnn, list(formats.read(file)))} == {7.5}
    formats.write(tmp_path / "b.jsonl", list(formats.read(file))[:2])
    assert [trace.record for trace in traces.make(rnn, list(formats.read(tmp_path / "b.jsonl")))] == rows[:2]
    formats.write(tmp_path / "c.jsonl", [dataclasses.replace(example, id="") for example in formats.read(file)])
    scores = evaluate(rnn, str(tmp_path / "c.jsonl"))["score"].to_list()
    unnamed = traces.make(rnn, list(formats.read(tmp_path / "c.jsonl")))
    assert [trace.record["score"] for trace in unnamed] == scores and len(set(scores)) == 3


def test_models_that_read_different_trees_are_not_compared(tmp_path):
    formats.write(tmp_path / "numeric.jsonl", [Example(Equation.parse("2*x + 1 = 1.29"), 1, "a")])
    for name, tasks in (("one", ["verification"]), ("other", ["function_evaluation", "verification"])):
        small_run(tmp_path, name=name, model={"name": "tree_rnn_stack", "hidden": 4, "tasks": tasks}, schedule={"epochs": 0})
    with pytest.raises(DataError, match=r"numeric.jsonl:1: .* do not read the same tree"):
        inspect(str(tmp_path / "numeric.jsonl"), run=(tmp_path / "one-0", tmp_path / "other-0"), limit=0)


def test_outline_has_a_line_per_node_and_says_where_models_part(file, rnn):
    examples = list(formats.read(file))
    traces_of_model = {"smu": traces.make(Run.open(SMU), examples), "rnn": traces.make(rnn, examples)}
    lines = trace_views.outline({name: batch[0] for name, batch in traces_of_model.items()}).splitlines()
    assert lines[0] == "sin(x)**2 + cos(x)**2 = 1" and lines[1].startswith("  smu: score ") and "P(holds)" in lines[2]
    assert len(lines) == 3 + examples[0].equation.size and lines[3] == "=" and lines[-1].strip() == "└ 1"
    (apart,) = [line for line in lines if "most apart" in line]
    gaps = traces.difference(traces_of_model["smu"][0], traces_of_model["rnn"][0])
    assert lines.index(apart) == 3 + np.nanargmax(gaps) and apart.count("push") == 2
    table = trace_views.correctness_table(traces_of_model)
    counts = [int(line.split()[-3]) for line in table.splitlines()[1:]]
    assert table.startswith("3 equations with labels") and sum(counts) == 3
    tree, record = Equation.parse("x + 1 = x"), {}
    gates = dict.fromkeys(("push", "pop"), np.array([np.nan, 0.5, np.nan, np.nan, np.nan]))
    first, second, without = (
        traces.Trace(tree, record, np.zeros((5, 2)), {}, given)
        for given in (gates, {**gates, "noop": np.array([np.nan, 1.0, 0, 0, 0])}, {})
    )
    assert traces.difference(first, second)[1] == pytest.approx(0.5) and traces.difference(first, first)[1] == 0
    assert np.isnan(traces.difference(first, without)).all()


def test_a_cell_with_two_stacks_is_shown_with_both(file, tmp_path):
    model = {"name": "tree_lstm_two_stacks", "hidden": 4, "settings": {"stack_size": 3}}
    (trace, *_) = traces.make(small_run(tmp_path, model=model, schedule={"epochs": 1}), list(formats.read(file)))
    assert {name: stack.shape[1:] for name, stack in trace.stacks.items()} == {"c_stack": (3, 1), "h_stack": (3, 1)}
    assert list(trace.actions) == ["c_push", "c_pop", "h_push", "h_pop"]
    line = trace_views.outline({"two": trace}).splitlines()[3]
    assert line.count("[") == 2 and all(f"{action} 0." in line for action in trace.actions)
    (axes,) = trace_views.draw_trace("two", trace).axes
    operators = sum(text is None for text in trace.tree.texts) - 1
    assert axes.images[0].get_array().shape == (3, 1)
    assert len(axes.images) == 2 * operators and len(axes.patches) == operators * 6, "four actions and two frames"
    size = trace.tree.size
    gates = {"write": np.full(size, 0.25), "erase": np.full(size, 0.75), "forget": np.zeros((size, 2))}
    named = dataclasses.replace(trace, gates=gates)
    assert list(named.actions) == ["write", "erase"] and trace_views.draw_trace("other", named).axes
    assert not dataclasses.replace(named, stacks={}).actions


def test_command(file, rnn, tmp_path, capsys):
    """Without a run and with some."""
    inspect(str(file), limit=1, equation="e2", output=tmp_path / "t.svg", json=True)
    assert json.loads(capsys.readouterr().out)["graphs"] == 1 and "<svg" in (tmp_path / "t.svg").read_text()
    inspect(str(file), limit=0, output=tmp_path / "t.png", vocabulary="released")
    assert "graphs 3, nodes 23" in capsys.readouterr().out and (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    inspect(str(file), json=True)
    summary = json.loads(capsys.readouterr().out)
    assert [summary[name] for name in ("graphs", "nodes", "edges", "leaves")] == [3, 23, 20, 12]
    assert summary["operators"] == {"Add": 3, "Equality": 3, "Mul": 1, "Pow": 2, "cos": 1, "sin": 1}
    assert summary["depths"] == {"2": 2, "4": 1} and summary["levels"] == [12, 5, 4, 1, 1]
    assert summary["leaf_texts"]["Symbol x"] == 6
    inspect(str(file), run=(SMU, rnn.folder), json=True, limit=0, equation="e2", output=tmp_path / "t.png")
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] == TEXTS[2] and set(answer["models"]) == {"tree_smu", "tree_rnn_stack_noop"}
    push, stack = answer["models"]["tree_smu"]["gates"]["push"], answer["models"]["tree_smu"]["rows"]["stack"]
    assert len(push) == len(stack) == len(answer["nodes"]) == 7 and push[0] is None
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    inspect(str(file), run=(SMU,), limit=0)
    assert "3 equations with labels" in capsys.readouterr().out
