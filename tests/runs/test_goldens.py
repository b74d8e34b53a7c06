"""The authors' checkpoints give the authors' numbers. Runs where TREESTACK_AUTHORS_DIR names the folder of their files."""

import gzip
import json

import numpy as np
import pytest
import torch
from released import CHECKPOINTS, every_checkpoint

from dgl_treestack.data import formats, graph
from dgl_treestack.data.forest import Forest
from dgl_treestack.data.formats.authors import from_dict
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.runs import import_authors
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.optimizer import RowOptimizer

SIGNALS = {"tree_smu_released": ["push", "pop", "noop", "forget"], "tree_lstm_released": [], "tree_rnn_released": []}


def load(authors, name):
    with gzip.open(authors / "goldens" / f"goldens_{name}_open.json.gz") as file:
        return json.load(file)


def prepared(authors, checkpoint, folder, **options):
    """The run of a checkpoint, its model in float64, the authors' outputs for some equations, and these as a data set."""
    run = import_authors.import_checkpoint(authors / "checkpoints" / f"{checkpoint}.checkpoint", folder, **options)
    model, goldens = run.load_model(torch.float64), load(authors, checkpoint)["equations"]
    return run, model, goldens, model.prepare([from_dict(data, str(data["id"])) for data in goldens])


def scores(model, dataset, chosen=None, signals=()):
    chosen = range(len(dataset)) if chosen is None else chosen
    batch = dataset.batch(np.asarray(chosen))
    with torch.no_grad():
        output = model(batch, signals=signals, keep=True).tolist()
    rows = [(dataset.examples[i], dataset.items[i], dataset.task[i], value) for i, value in zip(chosen, output, strict=True)]
    return [model.record(*row)["score"] for row in rows], batch


@every_checkpoint
def test_scores_losses_and_every_node(authors, checkpoint, tmp_path):
    run, model, goldens, dataset = prepared(authors, checkpoint, tmp_path)
    computed, batch = scores(model, dataset)
    assert len(computed) == 215
    assert {golden["meta"]["kind"] for golden in goldens} >= {"gold", "numeric", "unary_probe"}
    assert computed == pytest.approx([golden["score"] for golden in goldens], rel=1e-5)
    with torch.no_grad():
        losses = model.losses(model(batch), batch).tolist()
    assert losses == pytest.approx([golden["loss"] for golden in goldens], rel=1e-5, abs=1e-6)
    chosen = [i for i, golden in enumerate(goldens) if "nodes" in golden]
    assert len(chosen) == 11
    _, batch = scores(model, dataset, chosen, SIGNALS[run.config.model.name])
    nodes, data = [node for i in chosen for node in goldens[i]["nodes"]], batch.graph.ndata
    assert len(nodes) == batch.graph.num_nodes()
    compared = dict.fromkeys(("h", "c", "stack", "action", "f"), 0)
    for i, golden in enumerate(nodes):
        for key, value in golden.items():
            if key in compared:
                if key == "action":
                    actual = np.stack([data[f"signal/{name}"][i].numpy() for name in ("push", "pop", "noop")])
                else:
                    actual = (data["signal/forget"][i, : len(value)] if key == "f" else data[key][i]).numpy()
                expected = np.zeros_like(actual) if value is None else np.asarray(value)
                np.testing.assert_allclose(actual, expected.reshape(actual.shape), rtol=1e-5, atol=1e-6, err_msg=f"{i} {key}")
                compared[key] += 1
    keys = {"tree_smu_released": ["h", "stack", "action", "f"], "tree_lstm_released": ["h", "c"]}
    assert min(compared[key] for key in keys.get(run.config.model.name, ["h"])) > 50


@pytest.mark.parametrize("checkpoint", [name for name in CHECKPOINTS if "gated" in name])
@pytest.mark.parametrize("stack_size", [1, 2, 3, 7])
def test_scores_at_other_stack_sizes(authors, checkpoint, stack_size, tmp_path):
    _, model, goldens, dataset = prepared(authors, checkpoint, tmp_path, stack_size=stack_size)
    expected = [golden["score_by_stack_size"][str(stack_size)] for golden in goldens]
    assert scores(model, dataset)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("convention", ["zeros", "none"])
@pytest.mark.parametrize("checkpoint", [CHECKPOINTS[0], CHECKPOINTS[2], CHECKPOINTS[4]])
def test_three_training_steps(authors, checkpoint, convention, tmp_path):
    golden = load(authors, "trainstep")["runs"][checkpoint]
    expected = golden[f"zero_grad_sets_{'zero' if convention == 'zeros' else 'none'}"]
    run, model, _, dataset = prepared(authors, checkpoint, tmp_path)
    position = {example.id: i for i, example in enumerate(dataset.examples)}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adam = RowOptimizer(model, OptimizerConfig(gradients=convention))
    for step, ids in enumerate(golden["batches"]):
        batch = dataset.batch(np.array([position[str(i)] for i in ids]))
        loss = model.losses(model(batch), batch).mean()
        assert loss.item() == pytest.approx(expected["loss_per_step"][step], rel=1e-5)
        adam.zero()
        loss.backward()
        adam.collect()
        if step == 0 and expected["grad_norm_step1"]:
            gradients = {name: row.grad for name, row in adam.rows.items()}
            compare_norms(authors, checkpoint, run, gradients, expected["grad_norm_step1"])
        adam.step()
    moved = {name: tensor - before[name] for name, tensor in model.state_dict().items()}
    compare_norms(authors, checkpoint, run, moved, expected["delta_norm_after"])
    model.eval()
    computed, _ = scores(model, dataset, [position[str(i)] for i in golden["probe_ids"]])
    assert computed == pytest.approx(expected["probe_scores_after"], rel=1e-5)


def compare_norms(authors, checkpoint, run, tensors, expected):
    """Compare norms of the authors' tensors, cut out of ours; `translate` of numbered tensors shows where each of them went."""
    released = import_authors.read_checkpoint(authors / "checkpoints" / f"{checkpoint}.checkpoint")
    family = next(family for family in import_authors.FAMILIES if family.model == run.config.model.name)
    owners = {name: torch.full(tensor.shape, float(i)) for i, (name, tensor) in enumerate(released.items())}
    placed = import_authors.translate(owners, family)
    names = list(released)
    squares = dict.fromkeys(names, 0.0)
    for ours, owner in placed.items():
        if tensors[ours] is None:
            continue
        for i in owner.unique().tolist():
            squares[names[int(i)]] += float(tensors[ours][owner == i].pow(2).sum())
    assert len(expected) > 10
    for name, norm in expected.items():
        assert squares[name] ** 0.5 == pytest.approx(norm, rel=1e-5, abs=1e-9), name


@pytest.mark.slow
def test_every_equation_of_the_blanks_files_survives_a_graph_and_a_file(authors, tmp_path):
    count = 0
    for path in sorted((authors / "blanks").glob("*.json.gz")):
        examples = list(formats.read(path))
        trees = [example.equation for example in examples]
        assert graph.to_expressions(graph.build(Forest.build(trees, PRESETS["released"]))) == trees
        formats.write(tmp_path / "again.json.gz", examples)
        again = list(formats.read(tmp_path / "again.json.gz"))
        assert [(e.equation, e.label, e.blank) for e in again] == [(e.equation, e.label, e.blank) for e in examples]
        count += len(trees)
    assert count == 1939 and len(list(formats.read(authors / "candidate_classes.json.gz"))) == 1470
