"""Encoders: prefix tokens and paths in trees against plain recursion, the codes of positions, and training."""

import random

import numpy as np
import pytest
import torch
from each_case import assert_raises
from stack_rnn_golden import GOLDEN
from trees import random_equation

from dgl_treestack import MATH, Equation, Example, Expression, Model, Operator, Signature, Vocabulary
from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.data.formats import read_examples
from dgl_treestack.errors import ConfigurationError, GraphError
from dgl_treestack.inspection import traces
from dgl_treestack.sequence import _tokens as tokens
from dgl_treestack.sequence import encoders
from dgl_treestack.sequence.recurrent_encoder import WIDE
from dgl_treestack.sequence.transformer_encoder import BranchCode, sinusoidal

CANONICAL = Vocabulary.preset("canonical")
SIGNS = len(CANONICAL) + len(MATH.operators)
SIZES = dict.fromkeys(("transformer", "rotary_transformer", "looped_transformer", "neural_data_router"), 8)
SIZES["tree_transformer"] = 64
WORDS, ANY = Vocabulary.of_words("abc"), Signature("s", (Operator("join", None),), words=True, classes=("a", "b"))
SIZED = [*((name, SIZES.get(name, 6)) for name in encoders.encoders()), ("lstm", WIDE)]


def some(count=40, seed=0):
    rng = random.Random(seed)
    leaves = [("Symbol", "x"), ("Integer", "2"), ("Pi", "pi"), ("Half", "1/2")]
    return [random_equation(rng, rng.randrange(1, 7), leaves=leaves) for _ in range(count)]


def token(tree, node):
    name, text = tree.names[node], tree.texts[node]
    return CANONICAL.row(name, text) if text is not None else len(CANONICAL) + MATH.index[name]


def spelled(tree, node):
    children = tree.children(node)
    if not children:
        return [token(tree, node)]
    spelling = [token(tree, node), SIGNS]
    for i, child in enumerate(children):
        spelling += ([SIGNS + 2] if i else []) + spelled(tree, child)
    return [*spelling, SIGNS + 1]


def walked(tree, node, path=()):
    tokens_and_paths = [(token(tree, node), path)]
    for i, child in enumerate(tree.children(node)):
        tokens_and_paths += walked(tree, child, (i, *path))
    return tokens_and_paths


def test_tokens_are_those_of_plain_recursion():
    trees = some()
    batch = columns(graph.from_expressions(trees, CANONICAL), MATH, len(CANONICAL))
    starts = np.cumsum([0, *(tree.size for tree in trees[:-1])])
    nodes = [(tree, node, start + node) for tree, start in zip(trees, starts, strict=True) for node in range(tree.size)]
    chosen = tokens.Trees.below(batch, np.array([index for _, _, index in nodes]), len(CANONICAL))
    written, lengths = tokens.prefix(chosen, SIGNS)
    visited, sizes, paths = tokens.preorder(chosen)
    for i, (tree, node, _) in enumerate(nodes):
        spelling = spelled(tree, node)
        length = len(spelling)
        assert lengths[i] == length and written[i, :length].tolist() == spelling and not written[i, length:].any()
        walk = walked(tree, node)
        assert sizes[i] == len(walk) and visited[i, : len(walk)].tolist() == [expected for expected, _ in walk]
        for row, (_, path) in zip(paths[i], walk, strict=False):
            assert row[: len(path)].tolist() == list(path) and (row[len(path) :] == -1).all()
    assert encoders.build("rnn", len(CANONICAL), len(MATH.operators), 2).tokens == SIGNS + 3


def test_codes_of_positions():
    golden = GOLDEN["tree_pe"]
    code = BranchCode(golden["d_model"], branches=golden["n"], steps=golden["k"]).double()
    code.raw.data = torch.atanh(torch.tensor(golden["p"], dtype=torch.float64))
    for case in golden["cases"]:
        path = list(reversed(case["path_root_to_node"]))
        for padding in (0, 3):
            codes = code(torch.tensor([path + [-1] * padding], dtype=torch.int64).reshape(1, -1))
            torch.testing.assert_close(codes[0], torch.tensor(case["encoding"], dtype=torch.float64), atol=1e-6, rtol=0)
    codes = sinusoidal(40, 6)
    assert codes[0].tolist() == [0, 1] * 3
    assert codes[7, 4] == pytest.approx(np.sin(7 / 10_000 ** (4 / 6)), abs=1e-6)
    assert codes[7, 5] == pytest.approx(np.cos(7 / 10_000 ** (4 / 6)), abs=1e-6)


@pytest.mark.parametrize("name, hidden", SIZED)
def test_sides_do_not_see_each_other_nor_padding(name, hidden):
    model = Model.build(name, hidden, CANONICAL, ["verification"], dropout=0.3, seed=0)
    examples = [Example(tree, 1, str(i)) for i, tree in enumerate(some(12))]
    dataset = model.eval().prepare(examples)
    together = model(dataset.batch(np.arange(12)))
    for i in range(12):
        torch.testing.assert_close(model(dataset.batch(np.array([i]))), together[i : i + 1], atol=1e-5, rtol=1e-5)
    turned = [Example(Equation.of(example.equation.right, example.equation.left), 1, example.id) for example in examples]
    torch.testing.assert_close(model(model.prepare(turned).batch(np.arange(12))), together, atol=1e-5, rtol=1e-5)
    model.train()
    draws = [model(dataset.batch(np.arange(12)), generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], together), "dropout acts in training"
    model.losses(draws[0], dataset.batch(np.arange(12))).mean().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name, hidden", SIZED)
def test_all_subtrees_are_read_in_groups_of_similar_size(name, hidden, noted):
    trees = some()
    encoder = encoders.build(name, len(CANONICAL), len(MATH.operators), hidden).double().eval()
    encoder.reset_parameters(torch.Generator().manual_seed(0))
    batch = graph.from_expressions(trees, CANONICAL)
    sizes = noted(encoder, "encode", lambda _, read: read.size[read.roots])
    nodes = torch.arange(batch.num_nodes())
    vectors = encoder(batch, nodes)
    assert len(sizes) > 1 and all(len(of_group) * of_group.max() < 4 * of_group.sum() for of_group in sizes)
    some_nodes = nodes[::5]
    one_at_a_time = torch.stack([encoder(batch, node[None])[0] for node in some_nodes])
    torch.testing.assert_close(vectors[some_nodes], one_at_a_time)


def test_equal_sides_are_read_once_unless_dropout_makes_them_differ(noted):
    model = Model.build("lstm", 6, CANONICAL, ["verification"], dropout=0.3, seed=0)
    sides = [tree.left for tree in some(3)]
    pairs = [Equation.of(sides[a], sides[b]) for a, b in ((0, 1), (0, 2), (1, 2), (0, 1))]
    dataset = model.prepare([Example(tree, 1, str(i)) for i, tree in enumerate(pairs)])
    alone = torch.cat([model.eval()(dataset.batch(np.array([i]))) for i in range(4)])
    read = noted(type(model.cell), "encode", lambda _, __, trees: len(trees.roots))
    together = model(dataset.batch(np.arange(4)))
    torch.testing.assert_close(together, alone)
    model.train()(dataset.batch(np.arange(4)))
    model.cell.dropout = 0.0
    torch.testing.assert_close(model(dataset.batch(np.arange(4))), alone)
    assert read == [3, 8, 3]


def encoder_of(name, hidden, **settings):
    """An encoder with random values everywhere, biases included, as numbers by name, and the vectors of whole trees."""
    encoder = encoders.build(name, len(CANONICAL), len(MATH.operators), hidden, **settings).double().eval()
    encoder.reset_parameters(torch.Generator().manual_seed(0))
    for parameter in encoder.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    weights = {key: value.detach().numpy() for key, value in encoder.state_dict().items()}
    trees = [Expression.parse("x"), *some(6)]
    batch = graph.from_expressions(trees, CANONICAL)
    vectors = encoder(batch, graph.roots(batch).long()).detach().numpy()
    return weights, trees, vectors


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normalised(x, weights, name):
    return weights[f"{name}.weight"] * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + weights[f"{name}.bias"]


def affine(weights, name, x):
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def gin(weights, i, h, arriving):
    """One node's next state. arriving: state of the sender and kind of every edge."""
    name = f"layers.{min(i, weights['count'] - 1)}"
    z = (1 + weights[f"{name}.eps"]) * h
    for sender, kind in arriving:
        z = z + np.maximum(sender + weights["edges.weight"][kind], 0)
    inner = np.maximum(affine(weights, f"{name}.apply_func.0", z), 0)
    return normalised(affine(weights, f"{name}.apply_func.2", inner), weights, f"{name}.apply_func.3")


def gated_graph(weights, i, h, arriving):
    a = sum((affine(weights, f"layer.linears.{kind}", sender) for sender, kind in arriving), np.zeros(len(h)))
    of_a = np.split(weights["layer.gru.weight_ih"] @ a + weights["layer.gru.bias_ih"], 3)
    of_h = np.split(weights["layer.gru.weight_hh"] @ h + weights["layer.gru.bias_hh"], 3)
    reset, update = sigmoid(of_a[0] + of_h[0]), sigmoid(of_a[1] + of_h[1])
    return (1 - update) * np.tanh(of_a[2] + reset * of_h[2]) + update * h


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rounds", [1, 3, "depth"])
@pytest.mark.parametrize("step", [gin, gated_graph])
def test_graph_networks_send_messages_as_their_papers_say(step, rounds, reverse):
    weights, trees, vectors = encoder_of(step.__name__, 5, rounds=rounds, reverse=reverse)
    weights["count"] = 1 if rounds == "depth" else rounds
    for tree, vector in zip(trees, vectors, strict=True):
        edges = [(child, node, slot) for node in range(tree.size) for slot, child in enumerate(tree.children(node))]
        edges += [(node, child, 2 + slot) for child, node, slot in edges if reverse]
        h = [weights["table"][token(tree, node)] for node in range(tree.size)]
        for i in range(max(1, tree.depth) if rounds == "depth" else rounds):
            arriving = [[(h[u], kind) for u, v, kind in edges if v == node] for node in range(tree.size)]
            h = [step(weights, i, h[node], arriving[node]) for node in range(tree.size)]
        np.testing.assert_allclose(vector, h[0] / (5**0.25 if step is gin else 1), rtol=1e-9, atol=1e-12)


def rotary(weights, h):
    """One layer: pairs of a head are complex numbers, which positions rotate."""
    name = "layers.stack.layers.0"
    x = np.stack([normalised(row, weights, f"{name}.norm1") for row in h])
    q, k, v = np.split(x @ weights[f"{name}.self_attn.in_proj_weight"].T + weights[f"{name}.self_attn.in_proj_bias"], 3, axis=1)
    heads, width = [], 4
    for start in range(0, len(h[0]), width):
        rates = 10_000.0 ** (-np.arange(0, width, 2) / width)
        turns = np.exp(1j * np.arange(len(h))[:, None] * rates)
        turned = [(part[:, start : start + width : 2] + 1j * part[:, start + 1 : start + width : 2]) * turns for part in (q, k)]
        scores = np.exp((turned[0] @ turned[1].conj().T).real / np.sqrt(width))
        heads.append(scores / scores.sum(1, keepdims=True) @ v[:, start : start + width])
    h = [row + affine(weights, f"{name}.self_attn.out_proj", of) for row, of in zip(h, np.hstack(heads), strict=True)]
    inner = [np.maximum(affine(weights, f"{name}.linear1", normalised(row, weights, f"{name}.norm2")), 0) for row in h]
    return [row + affine(weights, f"{name}.linear2", of) for row, of in zip(h, inner, strict=True)]


def routed(weights, h):
    """One layer: every token asks the others from the nearest to the farthest, the right one first."""
    name, after, width = "layers", [], 4
    for i, state in enumerate(h):
        q, attended = affine(weights, f"{name}.query", state), []
        directions = affine(weights, f"{name}.direction", state)
        others = sorted((j for j in range(len(h)) if j != i), key=lambda j: (abs(i - j), j < i))
        for head, start in enumerate(range(0, len(state), width)):
            span, remaining, taken = slice(start, start + width), 1.0, {}
            for j in others:
                score = weights[f"{name}.alpha"] * (q[span] @ (weights[f"{name}.key.weight"] @ h[j])[span])
                score += weights[f"{name}.beta"] * directions[head if i <= j else 2 + head] + weights[f"{name}.gamma"]
                taken[j] = sigmoid(score) * remaining
                remaining *= 1 - sigmoid(score)
            values = [share * (weights[f"{name}.value.weight"] @ h[j])[span] for j, share in taken.items()]
            attended.append(sum(values, np.zeros(width)))
        a = normalised(state + weights[f"{name}.merge.weight"] @ np.hstack(attended), weights, f"{name}.attended_norm")
        inner = [np.maximum(affine(weights, f"{name}.{part}.0", a), 0) for part in ("data", "gate")]
        u = normalised(affine(weights, f"{name}.data.3", inner[0]), weights, f"{name}.data_norm")
        gate = sigmoid(affine(weights, f"{name}.gate.3", inner[1]))
        after.append(gate * u + (1 - gate) * state)
    return after


@pytest.mark.parametrize("loops", [1, 2, "depth"])
@pytest.mark.parametrize("layer, name", [(rotary, "looped_transformer"), (routed, "neural_data_router")])
def test_columns_attend_as_their_papers_say(layer, name, loops):
    weights, trees, vectors = encoder_of(name, 8, heads=2, feed_forward=5, loops=loops)
    for tree, vector in zip(trees, vectors, strict=True):
        h = [np.sqrt(8) * weights["table"][number] for number in spelled(tree, 0)]
        for _ in range(max(1, tree.depth) if loops == "depth" else loops):
            h = layer(weights, h)
        if layer is rotary:
            h[0] = np.mean([normalised(row, weights, "layers.stack.norm") for row in h], axis=0)
        np.testing.assert_allclose(vector, h[0] / 8**0.25, rtol=1e-5, atol=1e-6)


def test_the_gate_of_a_router_begins_closed():
    layer = Model.build("neural_data_router", 8, seed=0).cell.layers
    assert (layer.gate[-1].bias == -3).all() and layer.alpha.item() == pytest.approx(2**-0.5) and layer.beta == 1


def test_children_beyond_what_an_encoder_has_share_an_edge_or_are_refused():
    trees = [Expression.node("join", *(Expression.leaf("Word", word, ANY) for word in text)) for text in ("abc", "acb", "bac")]
    for positions, same in ((2, [True, False]), (3, [False, False])):
        model = Model.build("gated_graph", 5, WORDS, ["classification"], ANY, positions=positions, seed=0)
        scores = model.score(trees)
        assert [torch.allclose(scores[0], other) for other in scores[1:]] == same
    model = Model.build("tree_transformer", 64, WORDS, ["classification"], ANY, seed=0)
    assert_raises(GraphError, "more children than 2", model.score, trees[0])


def test_states_of_nodes_are_those_of_tree_models_alone(tmp_path):
    run = Model.build("lstm", 6, CANONICAL, seed=0).save(tmp_path / "run")
    assert_raises(ConfigurationError, "needs a tree model", traces.make, run, [Example(Equation.parse("x = x"), 1, "a")])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(encoders.encoders()))
def test_a_few_epochs_bring_it_away_from_chance(name):
    """Sixty equations by heart: with positive states, or products of sides that begin large, that takes far longer."""
    model = Model.build(name, max(32, SIZES.get(name, 0)), CANONICAL, ["verification"], seed=0)
    every_example = read_examples(["bundled:quickstart/train"])
    examples = [example for example in every_example if example.equation.depth <= 4][:60]
    data, adam = model.prepare(examples), torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for batch in data.batches(20):
            adam.zero_grad()
            model.losses(model(batch), batch).mean().backward()
            adam.step()
    (batch,) = model.eval().prepare(examples).batches(60)
    right = model.correct(model(batch), batch).float().mean()
    assert np.mean([example.label for example in examples]) == 0.5 and right > 0.8
