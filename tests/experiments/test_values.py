"""Read-outs of values: beside the values, by height, for every chosen subtree."""

import collections

import numpy as np
import pytest
import torch
from small_runs import write_data
from tables import result_of, table_of

from dgl_treestack import plots
from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.extras import values
from dgl_treestack.model.model import Model
from dgl_treestack.results import metrics
from dgl_treestack.runs.configuration import ModelConfig, RunConfig
from dgl_treestack.truth.subtrees import DEFINED, targets_of

POINTS = 4


@pytest.fixture(scope="module")
def model():
    return Model.build("tree_slots", 8, slots=2, signals={"value": 1.0, "points": POINTS}, seed=0).eval()


@pytest.fixture(scope="module")
def dataset(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "some.jsonl"
    return model.prepare(list(formats.read(write_data(path, 120))))


def test_every_record_is_a_subtree_with_its_value_and_the_models_read_out(model, dataset, monkeypatch):
    monkeypatch.setattr(values, "BATCH", 7)
    rows = values.make_records(model, dataset).rows(named=True)
    targets = targets_of(dataset.forest, POINTS)
    with torch.no_grad():
        whole = dataset.batch(np.arange(len(dataset)))
        readouts = model.signals.predict_values(model.node_states(whole)(torch.arange(len(whole.trees.subtree)))).numpy()
    expected = collections.defaultdict(list)
    for node, subtree in enumerate(dataset.forest.subtree):
        expected[tuple(readouts[node, :, :2].round(4).ravel())].append((int(dataset.forest.height[node]), int(subtree)))
    for row in rows:
        nodes = expected[tuple(np.array(row["readouts"], np.float32).round(4).ravel())]
        assert row["depth"] in {height for height, _ in nodes}
        (subtree,) = {subtree for _, subtree in nodes}
        for point in range(POINTS):
            known = targets.status[subtree, point] == DEFINED
            assert row["values"][point] == (targets.value[subtree, point].tolist() if known else None)
    with_value = {int(s) for s in dataset.forest.subtree if (targets.status[s] == DEFINED).any()}
    assert len(rows) == len(with_value)


def test_at_most_so_many_of_a_height(model, dataset, monkeypatch):
    monkeypatch.setattr(values, "MOST", 3)
    counts = collections.Counter(values.make_records(model, dataset)["depth"].to_list())
    assert max(counts.values()) == 3 and set(counts) == {0, 1, 2, 3}


def test_a_model_without_signals_has_no_read_outs(dataset):
    with pytest.raises(ConfigurationError, match="without signals"):
        values.make_records(Model.build("tree_rnn", 8, seed=0), dataset)


def test_the_figure(model, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "FEWEST_SUBTREES", 5)
    table = values.make_records(model, dataset)
    exact = table_of([{**row, "readouts": [pair or [0.0, 0.0] for pair in row["values"]]} for row in table.rows(named=True)])
    runs = {
        label: [result_of(RunConfig(label, ModelConfig("tree_slots")), values=readouts)]
        for label, readouts in (("drawn", table), ("exact", exact))
    }
    assert metrics.readouts_by_height(exact)[2] == pytest.approx((0.0, 1.0))
    assert metrics.readouts_by_height(table)[2][0] > 0.05
    written = plots.draw_groups("values", runs, tmp_path / "values")
    assert [path.suffix for path in written] == [".svg", ".png"] and "drawn" in written[0].read_text()
