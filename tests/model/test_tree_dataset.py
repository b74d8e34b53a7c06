"""Trees as a DGL data set: samples, loaders, what is kept on disk, and the package's own loop given one."""

import pickle

import numpy as np
import pytest
import torch
from each_case import assert_raises
from small_runs import small_config, write_data
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Subset

from dgl_treestack import Equation, Example, GraphDataLoader, Model, Operator, Signature, TreeDataset, plain_data, tasks
from dgl_treestack._torch import numpy_generator, torch_generator
from dgl_treestack.data import formats, graph
from dgl_treestack.errors import ConfigurationError, DataError, GraphError
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.stored_set import MANIFEST
from dgl_treestack.tasks.verification import Verification
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.start import prepare, start


@pytest.fixture
def file(tmp_path):
    return write_data(tmp_path / "train.jsonl", 40)


@pytest.fixture
def dataset(file, tmp_path):
    return TreeDataset(file, save_dir=tmp_path / "kept")


def build(**settings):
    return Model.build("tree_smu", 6, seed=0, stack_size=2, **settings)


def test_samples_are_a_graph_and_a_target_and_a_data_set_of_a_model_has_its_vocabulary(dataset, file, tmp_path):
    examples = list(formats.read(file))
    assert len(dataset) == len(examples) == 40
    for i in (0, 7, torch.tensor(39), -1):
        tree, target = dataset[i]
        assert tree.batch_size == 1 and target.dtype == torch.float32 and target.shape == ()
        assert graph.to_expressions(tree) == [examples[int(i)].equation] and target == examples[int(i)].label
    assert dataset.depths.tolist() == [example.equation.depth for example in examples]
    with pytest.raises(IndexError, match="no tree 40 among 40"):
        dataset[40]
    model = build(vocabulary="released", tasks=["function_evaluation", "verification"])
    dataset = model.dataset(file, save_dir=tmp_path, tasks="verification")
    assert dataset.vocabulary == model.vocabulary and dataset.tasks == ("verification",)


def test_batches_are_the_same_however_they_are_collated(dataset):
    places, model = list(range(5, 25)), build().eval()
    loaders = {
        "at once": GraphDataLoader(dataset, sampler=places, batch_size=8, collate_fn=dataset.collate),
        "by DGL": GraphDataLoader(dataset, sampler=places, batch_size=8),
        "by torch": DataLoader(dataset, sampler=places, batch_size=8, collate_fn=dataset.collate),
        "subset": GraphDataLoader(Subset(dataset, places), batch_size=8, collate_fn=dataset.collate),
        "workers": GraphDataLoader(dataset, sampler=places, batch_size=8, collate_fn=dataset.collate, num_workers=2),
        "one by one": [dataset.collate([dataset[i] for i in places[start : start + 8]]) for start in range(0, len(places), 8)],
    }
    expected = list(loaders["at once"])
    for name, loader in loaders.items():
        batches = list(loader)
        assert len(batches) == len(expected) == 3, name
        for (batch, target), (expected_batch, expected_target) in zip(batches, expected, strict=True):
            assert torch.equal(target, expected_target)
            assert torch.equal(batch.batch_num_nodes(), expected_batch.batch_num_nodes())
            assert set(batch.ndata) == set(expected_batch.ndata)
            assert all(torch.equal(batch.ndata[feature], expected_batch.ndata[feature]) for feature in batch.ndata)
            torch.testing.assert_close(model(batch), model(expected_batch))


def test_a_transform_is_applied_to_every_sample(file, tmp_path):
    def mark(tree):
        tree.ndata["seen"] = torch.ones(tree.num_nodes())
        return tree

    marked = TreeDataset(file, save_dir=tmp_path, transform=mark)
    ((batch, _),) = GraphDataLoader(marked, batch_size=40, collate_fn=marked.collate)
    assert marked[0][0].ndata["seen"].all() and batch.ndata["seen"].all() and batch.batch_size == 40


def test_columns_are_kept_and_made_anew_when_something_changes(file, tmp_path, noted):
    cache, reads = tmp_path / "kept", noted(TreeDataset, "process")
    first = TreeDataset(file, save_dir=cache)
    again = TreeDataset(file, save_dir=cache)
    assert len(reads) == 1 and not set(vars(again)) & {"examples"}
    assert first.forest.leaves == again.forest.leaves and np.array_equal(first.depths, again.depths)
    assert np.array_equal(first.targets, again.targets) and [e.id for e in again.examples] == [e.id for e in first.examples]
    assert isinstance(again.prepared, Dataset) and again.prepared.description, "in files, as those of `prepare_on_disk`"
    TreeDataset(file, save_dir=cache, force_reload=True)
    TreeDataset(file, save_dir=cache, vocabulary="released")
    assert len(reads) == 3
    write_data(tmp_path / "train.jsonl", 41)
    assert len(TreeDataset(file, save_dir=cache)) == 41 and len(reads) == 4
    (newest,) = {path for path in cache.rglob(MANIFEST) if path.parent.name == TreeDataset(file, save_dir=cache).hash}
    for path in (newest, newest.with_name("nodes.bin"), newest.with_name("targets.bin")):
        whole = path.read_bytes()
        path.write_bytes(whole[:100] if path == newest else bytes([*whole[:50], whole[50] ^ 1, *whole[51:]]))
        assert len(TreeDataset(file, save_dir=cache)) == 41
    newest.with_name("ids.bin").unlink()
    assert len(TreeDataset(file, save_dir=cache)) == 41 and len(reads) == 8
    assert len(TreeDataset(file, save_dir=cache)) == 41 and len(reads) == 8


def test_examples_in_memory_things_that_are_none_and_a_place_that_cannot_be_written(file, tmp_path, caplog):
    examples = [Example(Equation.parse("x + y = y + x"), 1), Example(Equation.parse("x = y"), None)]
    dataset = TreeDataset(examples, save_dir=tmp_path)
    assert len(dataset) == 2 and dataset[1][1].isnan() and not list(tmp_path.rglob(MANIFEST))
    assert len(pickle.loads(pickle.dumps(dataset))) == 2
    assert_raises(ConfigurationError, "made of files, or of examples", TreeDataset, [file, examples[0]], save_dir=tmp_path)
    assert_raises(ConfigurationError, "Unknown task 'sorting'", TreeDataset, file, tasks=["sorting"], save_dir=tmp_path)
    assert_raises(DataError, "Cannot be read", TreeDataset, str(tmp_path / "missing.jsonl"), save_dir=tmp_path)
    (tmp_path / "taken").write_text("")
    dataset = TreeDataset(file, save_dir=tmp_path / "taken")
    assert len(dataset) == 40 and "are not kept" in caplog.text


def test_a_model_says_which_graphs_it_cannot_take(dataset):
    model, two_tasks = build(), build(tasks=["verification", "function_evaluation"])
    signature = Signature("s", (Operator("f", 1), Operator("g", 2), Operator("eq", None)), "eq")
    of_one_side = Model.build("tree_smu", 6, seed=0, signature=signature)
    one_side = graph.from_expressions([Equation.from_prefix("eq/1 f Symbol:x", signature)], of_one_side.vocabulary, signature)
    equation = Equation.parse("x = y")
    mixed = graph.from_expressions([equation, equation.left], model.vocabulary)
    batch, _ = dataset.collate([dataset[i] for i in range(3)])
    without_trees = batch.clone()
    without_trees.set_batch_num_nodes(torch.tensor([batch.num_nodes()]))
    without_trees.set_batch_num_edges(torch.tensor([batch.num_edges()]))
    for kind, message, asked, given, *task in (
        (GraphError, r"Tree 1 of the batch, with root \d+, is no equation", model, mixed),
        (GraphError, "Tree 0 of the batch has 3 roots", model, without_trees),
        (GraphError, "with root 0, has not the two sides that the task 'verification' compares", of_one_side, one_side),
        (ConfigurationError, "Say which one a graph is for", two_tasks, batch),
        (GraphError, "an equation, whose root has no state; the task 'func", two_tasks, batch, "function_evaluation"),
        (ConfigurationError, "Unknown task 'sorting'", two_tasks, batch, "sorting"),
    ):
        with pytest.raises(kind, match=message):
            asked(given, task=task[0]) if task else asked(given)
    assert model(graph.restore_batch(without_trees)).shape == (3,)
    side = graph.from_expressions([Equation.parse("x + 1 = y").left], two_tasks.vocabulary)
    assert two_tasks(side, task="function_evaluation").shape == (1,)


def test_dropout_acts_in_training_and_only_there(dataset):
    model = build(dropout=0.5)
    batch, _ = dataset.collate([dataset[i] for i in range(10)])
    torch.manual_seed(0)
    first, second = model.train()(batch), model(batch)
    torch.manual_seed(0)
    assert torch.equal(model(batch), first) and not torch.equal(first, second)
    assert torch.equal(model.eval()(batch), model(batch))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_plain_loop_has_the_losses_of_the_packages_loop(dropout, tmp_path):
    """Same order, same initial values, same dropout; the package's loop is given the same TreeDataset."""
    model_settings = {"name": "tree_smu", "hidden": 4, "dropout": dropout, "settings": {"stack_size": 2}}
    config = small_config(tmp_path, model=model_settings, schedule={"epochs": 3}, compile="off")
    files = {"train": config.data.train, "validation": config.data.validation}
    sets = {kind: TreeDataset(paths, save_dir=tmp_path / "kept") for kind, paths in files.items()}
    run = start(config, 5, tmp_path / "given", quiet=True, data=sets)
    expected = [row["train_loss"] for row in run.read_metrics()]

    model = prepare(run, config, 5, quiet=True, data=sets).model
    model.reset_parameters(torch_generator(5, "initial values"))
    adam = RowOptimizer(model, config.optimizer)
    train = Subset(sets["train"], np.flatnonzero(np.isin(sets["train"].depths, config.data.depths)).tolist())
    losses = []
    for epoch in range(3):
        order = numpy_generator(5, "order", epoch).permutation(len(train)).tolist()
        total = 0.0
        loader = GraphDataLoader(train, sampler=order, batch_size=config.batch_size, collate_fn=sets["train"].collate)
        model.train()
        for step, (batch, target) in enumerate(loader):
            output = model(batch, generator=torch_generator(5, "dropout", epoch, step))
            loss = binary_cross_entropy_with_logits(output, target)
            adam.zero()
            loss.backward()
            adam.collect()
            adam.step()
            total += loss.item() * len(target)
        losses.append(total / len(train))
    assert losses == pytest.approx(expected, abs=1e-6)
    plain = start(config, 5, tmp_path / "files", quiet=True)
    assert [row["train_loss"] for row in plain.read_metrics()] == expected


def test_a_run_goes_on_with_the_data_sets_it_was_begun_with_only(tmp_path, file):
    no_files = {"train": [], "validation": [], "test": []}
    config = small_config(tmp_path, data=no_files, schedule={"epochs": 1})
    train = TreeDataset(file, save_dir=tmp_path)
    sets, folder = {"train": train, "validation": train}, tmp_path / "runs"
    run = start(config, 0, folder, quiet=True, data=sets)
    assert run.done.exists()
    assert start(config, 0, folder, quiet=True, resume=True, data=sets).folder == run.folder
    other = TreeDataset([Example(Equation.parse("x = y"), 0)], save_dir=tmp_path)
    for data, message, *changes in (
        ({**sets, "train": other}, "was begun with other data sets"),
        (None, "was begun with other data sets"),
        ({"train": train, "valid": train}, r"data\['valid'\] is not allowed", "name=new"),
        ({"train": Subset(train, [1])}, r"data\['train'\] is not allowed", "name=new"),
        ({"train": train}, "'data.percent' applies to the configuration's files", "name=new", "data.percent=10"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            start(plain_data.override(config, changes), 0, folder, quiet=True, resume=True, data=data)


def test_what_tasks_of_ones_own_prepare_is_not_kept(file, tmp_path, clean_registries):
    class Contrary(Verification):
        name = "contrary"

        def prepare(self, example):
            return tasks.Item(example.equation, 1.0 - example.label)

    tasks.register_task(Contrary)
    contrary, plain = (TreeDataset(file, tasks=name, save_dir=tmp_path / "kept") for name in ("contrary", "verification"))
    assert (contrary.targets == 1 - plain.targets).all()
    assert len(list((tmp_path / "kept").rglob(MANIFEST))) == 1
