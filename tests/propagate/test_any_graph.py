"""Graphs as users make them: batched, cut, permuted, saved, edited. Every engine has the states of `topo` on each of them.

TREESTACK_FUZZ sets how many graphs are made: 40 where it is not set, 2,000 in `make fuzz`.
"""

import copy
import os
import pickle
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch
from each_case import assert_each, assert_raises
from every_cell import ORDERED, VOCABULARY, assert_same_gradients, every_engine, every_model, make, needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import LEAVES, random_equation, random_tree

from dgl_treestack import MATH, Equation, Expression, Forest, Model, Operator, Signature, Vocabulary, cells, dgl
from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.data.wellformed import check_one_root
from dgl_treestack.errors import ConfigurationError, ExpressionError, GraphError
from dgl_treestack.propagate import Options, compute, draw_noise, propagate
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.sequence import encoders

GRAPHS = int(os.environ.get("TREESTACK_FUZZ", "40"))
ENGINES = ["levels", *([] if unavailable() else ["levels/traced"])]
ROOT = MATH.index["Equality"]
ROWS = [row for row, leaf in enumerate(VOCABULARY.leaves) if VOCABULARY.row(*leaf) == row]  # of `released`, two are never read
EXACT = {"rtol": 1e-10, "atol": 1e-10}
CELLS = [(name, form) for name in sorted(cells.models()) for form in cells.FORMS if (name, form) != ORDERED]


def tree_graph(*trees):
    return graph.from_expressions(trees, VOCABULARY)


def some_graph(rng):
    """One tree: a leaf, an expression or an equation, as a tree or with shared subexpressions."""
    kind = rng.randrange(4)
    if kind == 0:
        return tree_graph(random_tree(rng, rng.randrange(2)))
    tree = random_equation(rng, rng.randrange(1, 6)) if kind == 1 else random_tree(rng, rng.randrange(1, 6))
    return with_shared_nodes(tree_graph(tree), rng) if kind == 3 else tree_graph(tree)


def with_shared_nodes(batch, rng):
    """The same tree with equal subtrees as one node, wherever a coin says so."""
    nodes, (child, parent) = columns(batch, MATH), batch.edges()
    kept = {}
    stands_for = [kept.setdefault(int(n), i) if rng.random() < 0.7 else i for i, n in enumerate(nodes.subtree)]
    child = torch.tensor(stands_for)[child]
    edited = dgl.graph((child, parent), num_nodes=batch.num_nodes())
    edited.ndata.update(batch.ndata)
    edited.edata["slot"] = batch.edata["slot"]
    below = nx.ancestors(edited.to_networkx(), 0)
    return whole(dgl.node_subgraph(edited, sorted({0, *below}), store_ids=False))


def no_nodes():
    return whole(dgl.node_subgraph(tree_graph(Expression.parse("x")), [], store_ids=False))


def whole(one):
    one.set_batch_num_nodes(torch.tensor([one.num_nodes()], dtype=one.idtype))
    one.set_batch_num_edges(torch.tensor([one.num_edges()], dtype=one.idtype))
    return one


# What users do to a batch: graph -> graph


def nest(batch, rng):
    return dgl.batch([batch, dgl.batch([some_graph(rng), some_graph(rng)])])


def unbatch(batch, rng):
    parts = dgl.unbatch(batch)
    rng.shuffle(parts)
    return dgl.batch(parts)


def cut_trees(batch, rng):
    parts = np.split(np.arange(batch.num_nodes()), np.cumsum(batch.batch_num_nodes().tolist())[:-1])
    rng.shuffle(parts)
    chosen = np.concatenate(parts[: max(1, len(parts) // 2)])
    return whole(dgl.node_subgraph(batch, torch.from_numpy(chosen), store_ids=False))


def reorder(batch, rng):
    nodes, edges = (rng.sample(range(n), n) for n in (batch.num_nodes(), batch.num_edges()))
    config = {"nodes_perm": np.array(nodes, dtype=np.int64), "edges_perm": np.array(edges, dtype=np.int64)}
    reordered = dgl.reorder_graph(batch, node_permute_algo="custom", edge_permute_algo="custom", permute_config=config)
    return whole(reordered)


def save(batch, rng):
    with tempfile.TemporaryDirectory() as folder:
        dgl.save_graphs(f"{folder}/a.bin", [batch])
        return dgl.load_graphs(f"{folder}/a.bin")[0][0]


def moved(batch, rng):
    return batch.to("cpu").int() if rng.random() < 0.5 else batch.clone()


def edit_token(batch, rng):
    leaves = torch.nonzero((batch.ndata["op"] < 0) & (batch.ndata["token"] >= 0)).squeeze(1)
    if len(leaves):
        batch.ndata["token"][leaves[rng.randrange(len(leaves))]] = rng.choice(ROWS)
    return batch


def edit_number(batch, rng):
    leaves = torch.nonzero(batch.ndata["op"] < 0).squeeze(1)
    node = leaves[rng.randrange(len(leaves))]
    batch.ndata["token"][node], batch.ndata["number"][node] = -1, rng.choice([0.0, -1.5, 1.29])
    return batch


def edit_operator(batch, rng):
    arity, op = batch.in_degrees(), batch.ndata["op"]
    alike = torch.nonzero((arity > 0) & (op != ROOT)).squeeze(1)
    if len(alike):
        node = alike[rng.randrange(len(alike))]
        names = [operator.name for operator in MATH.inner if operator.arity == arity[node]]
        op[node] = MATH.index[rng.choice(names)]
    return batch


def swap_slots(batch, rng):
    _, parents = batch.edges(order="eid")
    binary = torch.nonzero(batch.in_degrees() == 2).squeeze(1)
    if len(binary):
        edges = parents == binary[rng.randrange(len(binary))]
        batch.edata["slot"][edges] = 1 - batch.edata["slot"][edges]
    return batch


def add_leaf(batch, rng):
    """A new leaf, of another kind than any, takes the place of a child."""
    if not batch.num_edges():
        return batch
    edge, new = rng.randrange(batch.num_edges()), torch.tensor([batch.num_nodes()], dtype=batch.idtype)
    parent, slot = batch.edges(order="eid")[1][edge : edge + 1], batch.edata["slot"][edge : edge + 1]
    edited = dgl.add_nodes(batch, 1, {"op": torch.tensor([-1]), "token": torch.tensor([rng.choice(ROWS)])})
    edited = dgl.remove_edges(edited, torch.tensor([edge], dtype=batch.idtype))
    return whole(dgl.add_edges(edited, new, parent, {"slot": slot}))


def mislead(batch, rng):
    """Features that once were trusted."""
    for name in ("subtree", "height", "leaf"):
        batch.ndata[name] = torch.tensor([rng.randrange(3) for _ in range(batch.num_nodes())])
    return batch


BATCHING = (nest, unbatch, cut_trees)  # which need to know what is of which tree, and the same features everywhere
EDITS = (reorder, moved, edit_token, edit_number, edit_operator, swap_slots, add_leaf)
OTHERS = (*EDITS, save, lambda batch, rng: pickle.loads(pickle.dumps(batch)), lambda batch, rng: copy.deepcopy(batch))


def user_graph(seed):
    """Some trees, some batching, then anything else, and wrong features in the end."""
    rng = random.Random(seed)
    batch = dgl.batch([some_graph(rng) for _ in range(rng.randrange(1, 6))])
    for change in (*rng.choices(BATCHING, k=rng.randrange(3)), *rng.choices(OTHERS, k=rng.randrange(1, 5)), mislead):
        batch = change(batch, rng)
    return batch


@cache
def cell_of(name, form, inputs):
    return make(name, form=form, input_size=inputs, dropout=0.3).train()


@pytest.mark.slow
@settings(max_examples=GRAPHS)
@given(st.integers(0, 2**32), *map(st.sampled_from, (CELLS, ["none", "node", "subtree", "stale"], [0, 2])))
def test_every_engine_has_the_states_signals_and_gradients_of_topo(seed, model, masks, inputs):
    cell, batch, source = cell_of(*model, inputs), user_graph(seed), torch.Generator().manual_seed(seed % 1000)
    noise = None if masks == "none" else draw_noise(cell, batch, source, per_subtree=masks != "node")
    if masks == "stale":
        batch = edit_token(edit_operator(batch, random.Random(seed)), random.Random(seed))
    if inputs:
        batch.ndata["input"] = torch.randn(batch.num_nodes(), inputs, dtype=torch.float64, generator=source)
    assert_same_gradients(cell, batch, ENGINES, noise)
    assert_same_gradients(cell, batch, "levels", noise, list(cell.signals))


@settings(max_examples=GRAPHS)
@given(st.integers(0, 2**32), st.sampled_from(sorted(encoders.encoders())))
def test_encoders_read_the_trees_that_are_there(seed, name):
    """Vectors of some nodes are those of the expressions below them, each read by itself from a graph of its own."""
    rng, batch = random.Random(seed), user_graph(seed)
    batch.ndata["token"] = torch.where((batch.ndata["op"] < 0) & (batch.ndata["token"] < 0), 3, batch.ndata["token"])
    del batch.ndata["text"]
    trees = graph.to_expressions(batch, vocabulary=VOCABULARY)
    encoder = encoder_of(name)
    actual = encoder(batch, graph.roots(batch).long())
    chosen = rng.sample(range(len(trees)), min(2, len(trees)))
    for i in chosen:
        torch.testing.assert_close(actual[i], encoder(tree_graph(trees[i]), torch.tensor([0]))[0], **EXACT)


@cache
def encoder_of(name):
    model = encoders.build(name, len(VOCABULARY), len(MATH.operators), 64 if name == "tree_transformer" else 8)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model.double().eval()


# Cases by name


@every_engine
def test_a_graph_is_read_as_it_is_now(engine):
    """Batched, with features of old that are wrong, and edited after it was propagated."""
    rng, cell = random.Random(0), make("tree_lstm")
    graphs = [tree_graph(random_equation(rng, 4), random_tree(rng, 3)) for _ in range(2)]
    alone = torch.cat([propagate(one, cell, engine="topo") for one in graphs])
    batch = mislead(dgl.batch(graphs), rng)
    before = propagate(batch, cell, engine=engine).clone()
    torch.testing.assert_close(before, alone, **EXACT)
    after = propagate(edit_token(swap_slots(batch, rng), rng), cell, engine=engine)
    torch.testing.assert_close(after, propagate(batch.clone(), cell, engine="topo"), **EXACT)
    assert (after - before).abs().max() > 1e-3


@every_engine
def test_a_shared_subexpression_is_one_row(engine):
    """x*y is one node with three parents, and its gradient is that of all of its uses."""
    shared = dgl.graph(([0, 1, 2, 2, 2, 3], [2, 2, 3, 4, 4, 4]), num_nodes=5)
    signature = Signature("s", (Operator("Mul", 2), Operator("sin", 1), Operator("three", 3)))
    shared.ndata["op"], shared.ndata["token"] = torch.tensor([-1, -1, 0, 1, 2]), torch.tensor([3, 4, -1, -1, -1])
    shared.ndata["number"], shared.edata["slot"] = torch.zeros(5), torch.tensor([0, 1, 0, 0, 2, 1])
    cell = make("tree_smu", signature=signature)
    (tree,) = graph.to_expressions(shared, signature, VOCABULARY)
    assert tree.size == 11 and tree.prefix().startswith("three Mul")

    def gradient(batch, engine):
        cell.zero_grad()
        (propagate(batch, cell, engine=engine, signature=signature)[graph.roots(batch)] ** 2).sum().backward()
        return [parameter.grad.clone() for parameter in cell.parameters() if parameter.grad is not None]

    written_out = graph.from_expressions([tree], VOCABULARY, signature)
    torch.testing.assert_close(gradient(shared, engine), gradient(written_out, "topo"), **EXACT)


@every_engine
def test_empty_batches_and_single_leaves(engine):
    cell = make("tree_smu")
    empty = graph.build(Forest.build([], VOCABULARY))
    assert propagate(empty, cell, engine=engine, signals=["push"]).shape == (0, 6)
    assert propagate(no_nodes(), cell, engine=engine).shape == (0, 6)
    leaf = dgl.batch([tree_graph(Expression.parse("x")), no_nodes(), tree_graph(Expression.parse("y"))])
    assert propagate(leaf, cell, engine=engine).shape == (2, 6)


@pytest.mark.parametrize("engine", ["topo", *ENGINES])
def test_several_threads_at_once(engine):
    """On the same graph and on others, with gradients."""
    cell = make("tree_smu").train()
    batches = [user_graph(seed) for seed in range(4)] * 2
    weights = [parameter for parameter in cell.products.parameters()]

    def run(batch):
        h = compute(batch, cell, engine=engine).of("h", torch.arange(batch.num_nodes()))
        gradients = torch.autograd.grad(h.sin().sum(), weights, allow_unused=True)
        return [h, *(gradient for gradient in gradients if gradient is not None)]

    wanted = [run(batch) for batch in batches]
    with ThreadPoolExecutor(len(batches)) as pool:  # whatever a thread raises, `map` raises
        torch.testing.assert_close([*pool.map(run, batches * 5)], wanted * 5, **EXACT)


# Graphs that are none


def good():
    """Equality of sin(x)*y and 2: nodes 0 =, 1 *, 2 sin, 3 x, 4 y, 5 2."""
    return tree_graph(Equation.parse("sin(x)*y = 2"))


def edge(batch, child, parent):
    return int(batch.edge_ids(child, parent))


def feature(name, node, value):
    return replaced("ndata", name, lambda values: values.index_fill(0, torch.tensor([node]), value))


def slot(child, parent, value):
    return replaced("edata", "slot", lambda values: values.index_fill(0, torch.tensor([edge(good(), child, parent)]), value))


def linked(child, parent, value):
    return lambda batch: dgl.add_edges(batch, [child], [parent], {"slot": torch.tensor([value])})


def cut(child, parent):
    return lambda batch: dgl.remove_edges(batch, edge(batch, child, parent))


def replaced(home, name, change):
    """Another feature, or none."""

    def changed(batch):
        values = getattr(batch, home).pop(name)
        if change:
            getattr(batch, home)[name] = change(values)
        return batch

    return changed


def no_number(batch):
    return feature("number", 3, float("nan"))(feature("token", 3, -1)(batch))


def cyclic(batch):
    """x, below sin, becomes a cosine above the product."""
    batch.ndata["op"][3] = MATH.index["cos"]
    return dgl.add_edges(batch, [1], [3], {"slot": torch.tensor([0])})


MALFORMED = {
    "cycle": (cyclic, r"Node \d is below itself: the graph has a cycle"),
    "own child": (lambda batch: linked(2, 2, 0)(cut(3, 2)(batch)), "Node 2 is below itself"),
    "missing slot": (slot(3, 2, 1), r"Node 2 \(sin\) has children in slots 1; the slots of 1 children are 0 to 0, each once"),
    "doubled slot": (slot(4, 1, 0), r"Node 1 \(Mul\) has children in slots 0, 0"),
    "huge slot": (slot(4, 1, 2**40), r"Node 1 \(Mul\) has children in slots 0, 1099511627776"),
    "too many children": (linked(4, 2, 1), "Node 2 has 2 children; 'sin' of 'math' takes 1"),
    "too few children": (cut(4, 1), "Node 1 has 1 children; 'Mul' of 'math' takes 2"),
    "operator without children": (feature("op", 4, MATH.index["cos"]), "Node 4 has 0 children; 'cos' of 'math' takes 1"),
    "leaf with children": (feature("op", 2, -1), "Node 2 is a leaf .* and has children"),
    "op below -1": (feature("op", 3, -5), "Node 3 has op = -5, which is no operator of 'math'"),
    "op above all": (feature("op", 2, 30), "Node 2 has op = 30, which is no operator of 'math': 0 to 29"),
    "unknown token": (feature("token", 3, 34), "Node 3 has token = 34, which is no row of the vocabulary: 0 to 33"),
    "token below -1": (feature("token", 4, -2), "Node 4 has token = -2"),
    "number that is none": (no_number, "Node 3 is a leaf with token = -1, whose number is not finite"),
    "equation below an operator": (feature("op", 1, ROOT), "Node 1 is 'Equality' and has a parent"),
    "no op": (replaced("ndata", "op", None), r"There is no graph.ndata\['op'\]"),
    "a cycle, without rows": (lambda batch: cyclic(batch).formats("coo"), r"Node \d is below itself: the graph has a cycle"),
    "no slot": (replaced("edata", "slot", None), r"There is no graph.edata\['slot'\]"),
    "op of numbers with a point": (replaced("ndata", "op", torch.Tensor.float), "whole numbers, torch.int64"),
    "token of two columns": (
        replaced("ndata", "token", lambda x: torch.stack([x, x], 1)),
        r"has the shape \(6, 2\)",
    ),
    "number to be learned": (
        replaced("ndata", "number", lambda x: x.clone().requires_grad_()),
        "requires a gradient; numbers are",
    ),
    "complex number": (replaced("ndata", "number", lambda values: values.to(torch.complex64)), "it holds real numbers"),
    "two types of nodes": (lambda batch: dgl.heterograph({("a", "to", "b"): ([0], [0])}), "one type of node"),
}


def test_words_have_tokens_and_expressions_their_language():
    words = Signature("words", (Operator("pair", 2),), words=True, notation="brackets")
    tree, vocabulary = Expression.parse("(pair a b)", words), Vocabulary.of_words("ab")
    batch = graph.from_expressions([tree], vocabulary)  # of the language of the tree
    cell = make("tree_rnn", signature=words, vocabulary=vocabulary, hidden=3)
    assert propagate(batch, cell, signature=words).shape == (3, 3)
    batch.ndata["token"][1] = -1
    with pytest.raises(GraphError, match=r"Node 1 has token = -1, which is no row of the vocabulary: 0 to 2\.$"):
        propagate(batch, cell, signature=words)
    with pytest.raises(ExpressionError, match=r"Unknown operator 'pair'.*They are of 'math'"):
        graph.from_expressions([tree], vocabulary, MATH)


@pytest.mark.parametrize("number", [torch.int64, torch.int32])
@pytest.mark.parametrize("sparse", ["coo", "csr", "csc", ["csr", "csc"], ["coo", "csc"]])
def test_a_graph_in_any_format_is_read_as_the_unrestricted_one(sparse, number):
    model = Model.build("tree_smu", 6, VOCABULARY, seed=0).double().eval()
    rng = random.Random(0)
    plain = tree_graph(*(random_equation(rng, 4) for _ in range(3)))
    plain = plain if number is torch.int64 else plain.int()
    permutation = {"edges_perm": np.array(rng.sample(range(plain.num_edges()), plain.num_edges()))}
    shuffled = dgl.reorder_graph(plain, edge_permute_algo="custom", permute_config=permutation, store_ids=False)
    counts = [count.to(plain.idtype) for count in (plain.batch_num_nodes(), plain.batch_num_edges())]
    for batch in (plain, shuffled):  # DGL 2.1 demands counts of the type of the graph, and `int` keeps theirs
        batch.set_batch_num_nodes(counts[0])
        batch.set_batch_num_edges(counts[1])
    restricted = shuffled.formats(sparse)
    for batch, wanted in ((restricted, plain), (dgl.batch([restricted, restricted]), dgl.batch([plain, plain]))):
        for engine in ("topo", *ENGINES):
            torch.testing.assert_close(model(batch, engine=engine), model(wanted), **EXACT)
            states = propagate(wanted.clone(), model.tree_cell, engine="topo")
            torch.testing.assert_close(propagate(batch, model.tree_cell, engine=engine), states, **EXACT)
        assert "h" in batch.ndata and set(batch.formats()["created"]) <= {*np.atleast_1d(sparse).tolist()}
        assert graph.to_expressions(batch) == graph.to_expressions(wanted)
    kept = graph.restore_batch(plain.formats(sparse)).batch_num_nodes()
    assert kept.tolist() == plain.batch_num_nodes().tolist()


@pytest.mark.parametrize("engine", ["topo", *ENGINES])
def test_every_malformed_graph_has_its_one_error(engine):
    def assert_refused(change, message):
        assert_raises(GraphError, message, propagate, change(good()), make("tree_smu"), engine=engine)

    assert_each(assert_refused, [(fault, *case) for fault, case in MALFORMED.items()])


def test_a_tree_has_one_root():
    one = good()
    check_one_root(one)
    check_one_root(dgl.batch([one, one]))
    with pytest.raises(GraphError, match=r"Tree 0 of the batch has 2 roots \(nodes 0, 6\); one is needed"):
        check_one_root(whole(dgl.add_nodes(one, 1)))
    assert_raises(GraphError, "Tree 1 of the batch has no nodes", check_one_root, dgl.batch([one, no_nodes(), one]))
    one.set_batch_num_nodes(torch.tensor([2, 2]))
    assert_raises(GraphError, "counts 4 nodes of 6", check_one_root, one)


@pytest.mark.parametrize("engine", ["topo", *ENGINES])
def test_features_of_other_types_mean_the_same(engine):
    cell, batch = make("tree_smu"), good()
    wanted = propagate(batch.clone(), cell, engine="topo")
    batch.ndata["token"][1] = 12345  # at an operator, where it is not read
    for name, other in (("op", torch.int32), ("token", torch.int16), ("number", torch.bfloat16)):
        batch.ndata[name] = batch.ndata[name].to(other)
    batch.edata["slot"] = batch.edata["slot"].to(torch.uint8)
    torch.testing.assert_close(propagate(batch, cell, engine=engine), wanted, **EXACT)


@pytest.mark.parametrize("engine", ["topo", *ENGINES])
def test_what_does_not_fit_the_cell_is_one_error(engine):
    batch, cell = good(), make("tree_smu", input_size=2)
    assert_raises(ConfigurationError, "Nodes have no feature 'input' here", propagate, batch, cell, engine=engine)
    for values in (torch.ones(6, 3), torch.ones(6), torch.ones(6, 2, dtype=torch.int64)):
        batch.ndata["input"] = values
        assert_raises(GraphError, r"the cell takes real numbers of shape \(6, 2\)", propagate, batch, cell, engine=engine)
    other = Signature("other", (Operator("cos", 1), Operator("sin", 1)))
    with pytest.raises(ConfigurationError, match="made for other operators than those of 'other'"):
        propagate(batch, make("tree_smu"), engine=engine, signature=other)
    few = cells.build("tree_rnn", [MATH["cos"]], len(VOCABULARY), 4)
    with pytest.raises(ConfigurationError, match="has the operator 'sin' of 'math', for which the cell was not made"):
        propagate(batch, few, engine=engine)
    larger, dropping = tree_graph(Expression.parse("x + y + x*y")), make("tree_smu", dropout=0.5)
    noise = draw_noise(dropping.train(), larger, torch.Generator().manual_seed(0))
    with pytest.raises(ConfigurationError, match="was drawn for 7 nodes, not for 6"):
        propagate(batch, dropping, engine=engine, noise=noise)


def test_an_encoder_reads_nothing_and_no_number_without_a_row():
    for name in encoders.encoders():
        assert encoder_of(name)(no_nodes(), torch.zeros(0, dtype=torch.int64)).shape[0] == 0
    with pytest.raises(GraphError, match=r"Node 2 is the number 1.29 without a row in the vocabulary"):
        encoder_of("lstm")(tree_graph(Expression.parse("x + Number(1.29)")), torch.tensor([0]))


@needs_compiler
@pytest.mark.parametrize("changed", ["weights", "external input"])
@pytest.mark.parametrize("engine", ["topo", *ENGINES])
def test_what_backward_reads_may_not_be_changed_before_it(engine, changed):
    cell, batch = make("tree_smu", input_size=2).train(), tree_graph(Expression.parse("sin(x)*y + x"))
    batch.ndata["input"] = torch.rand(batch.num_nodes(), 2, dtype=torch.float64)
    inputs = batch.ndata["input"]
    h = propagate(batch, cell, engine=engine, options=Options(recorded_rows=0))
    with torch.no_grad():
        (cell.products["gates"].weight2 if changed == "weights" else inputs).mul_(2)
    if engine == "topo" and changed == "external input":
        return h.sum().backward()  # it has taken copies
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        h.sum().backward()


def test_what_is_shared_too_often_to_be_written_out():
    """A chain of n squares stands for a tree of 2^n leaves: a tree model does not mind, a reader of tokens must."""
    n = 80
    child = torch.arange(n).repeat_interleave(2)
    squares = dgl.graph((child, child + 1), num_nodes=n + 1)
    squares.ndata["op"] = torch.full((n + 1,), MATH.index["Mul"])
    squares.ndata["op"][0] = -1
    squares.ndata["token"] = torch.full((n + 1,), -1)
    squares.ndata["token"][0] = 3
    squares.ndata["number"], squares.edata["slot"] = torch.zeros(n + 1), torch.arange(2).repeat(n)
    cell = make("tree_smu")
    torch.testing.assert_close(propagate(squares.clone(), cell), propagate(squares, cell, engine="topo"), **EXACT)
    too_many = "10,000,000 nodes once shared ones are written out"
    with pytest.raises(GraphError, match=too_many):
        encoder_of("lstm")(squares, torch.tensor([n]))
    assert_raises(GraphError, too_many, graph.to_expressions, squares, vocabulary=VOCABULARY)


@every_model
def test_cells_and_models_can_be_sent_to_other_processes(name):
    cell, batch = make(name), tree_graph(random_equation(random.Random(3), 4, leaves=LEAVES))
    sent = pickle.loads(pickle.dumps(cell))
    assert torch.equal(propagate(batch.clone(), sent), propagate(batch, cell))
    model = Model.build(name, 6, VOCABULARY, ["verification"], seed=0)
    assert repr(pickle.loads(pickle.dumps(model))) == repr(model)
