import random

import numpy as np
import pytest
import torch
from each_case import assert_raises
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import random_equation, random_tree, shuffled

from dgl_treestack import MATH, Expression, Forest, Operator, Signature, Vocabulary, _dgl
from dgl_treestack.data import graph
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.data.wellformed import check
from dgl_treestack.errors import GraphError
from dgl_treestack.expression.language import find

VOCABULARY = PRESETS["released"]
SENTIMENT = find("sentiment")
LONG = "http://www.example.org/a/very/long/address/of/a/film/review/page"


def some_trees(seed=0, count=12):
    rng = random.Random(seed)
    return [random_equation(rng, rng.randrange(1, 7)) if i % 3 else random_tree(rng, i % 5) for i in range(count)]


def test_edges_point_to_parents_and_trees_stay_apart_also_when_batch_information_is_restored():
    trees = some_trees()
    batch = graph.from_expressions(trees, VOCABULARY)
    assert batch.batch_num_nodes().tolist() == [tree.size for tree in trees]
    assert batch.batch_num_edges().tolist() == [tree.size - 1 for tree in trees]
    assert batch.out_degrees().max() == 1
    starts = np.cumsum([0] + [tree.size for tree in trees[:-1]])
    assert graph.roots(batch).tolist() == starts.tolist()
    table = check(batch, MATH).children
    for start, tree in zip(starts, trees, strict=True):
        for node in range(tree.size):
            expected = [start + child for child in tree.children(node)]
            assert [child for child in table[start + node].tolist() if child >= 0] == expected
    num_nodes, num_edges = batch.batch_num_nodes(), batch.batch_num_edges()
    batch.set_batch_num_nodes(torch.tensor([batch.num_nodes()]))
    batch.set_batch_num_edges(torch.tensor([batch.num_edges()]))
    graph.restore_batch(batch)
    assert torch.equal(batch.batch_num_nodes(), num_nodes) and torch.equal(batch.batch_num_edges(), num_edges)
    child, parent = batch.edges(order="eid")
    order = torch.randperm(batch.num_edges(), generator=torch.Generator().manual_seed(0))
    mixed = _dgl.graph((child[order], parent[order]), num_nodes=batch.num_nodes())
    mixed.ndata.update(batch.ndata)
    mixed.edata["slot"] = batch.edata["slot"][order]
    assert_raises(GraphError, "The edges of a tree are not contiguous", graph.restore_batch, mixed)


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_round_trip_through_dgl(seed):
    trees = some_trees(seed)
    forest = Forest.build(trees, VOCABULARY)
    batch = graph.build(forest)
    assert graph.to_expressions(batch) == trees
    assert graph.to_expressions(shuffled(batch, seed)[0]) == trees
    assert [forest.expression(i).prefix() for i in range(len(trees))] == [tree.prefix() for tree in trees]
    assert graph.to_expressions(graph.build(forest, [7, 0, 7, 3])) == [trees[i] for i in (7, 0, 7, 3)]


def test_a_chain_of_depth_twenty_thousand():
    chain = Expression.from_prefix("sin " * 20_000 + "Symbol:x")
    assert chain.depth == 20_000 and len(str(chain)) == 5 * 20_000 + 1 and Expression.from_prefix(chain.prefix()) == chain
    assert graph.to_expressions(graph.build(Forest.build([chain], VOCABULARY))) == [chain]


def test_a_text_that_is_cut_is_an_error_only_where_it_is_read():
    name = "x" * 80
    vocabulary = Vocabulary("canonical", (("Symbol", name), ("Symbol", "y" * 57)))
    batch = graph.from_expressions([Expression.leaf("Symbol", name)], vocabulary)
    check(batch, MATH, len(vocabulary))
    assert_raises(GraphError, "The text of node 0 is cut: it had more than 64 bytes", graph.to_expressions, batch)
    fits = Expression.leaf("Symbol", "y" * 57)  # 64 bytes with its class
    assert graph.to_expressions(graph.from_expressions([fits], vocabulary)) == [fits]
    signature = Signature("long", (Operator("operator" * 9, 1),), words=True)
    tree = Expression.node("operator" * 9, Expression.leaf("Word", "a", signature))
    assert graph.to_expressions(graph.from_expressions([tree], Vocabulary.of_words("a")), signature) == [tree]


def test_texts_agree_with_operators():
    batch = graph.from_expressions([Expression.parse("sin(x)")], VOCABULARY)
    batch.ndata["op"][0] = MATH.index["cos"]
    assert_raises(GraphError, r"Node 0 has op = 1, which is 'cos' in 'math', and the text 'sin'", graph.to_expressions, batch)
    batch.ndata["text"][0] = graph.encode_texts(["cos"])[0]
    assert graph.to_expressions(batch) == [Expression.parse("cos(x)")]
    del batch.ndata["text"]
    assert_raises(GraphError, "Nodes have no feature 'text'", graph.to_expressions, batch)
    assert str(graph.to_expressions(batch, vocabulary=VOCABULARY)[0]) == "cos(var_0)"


@pytest.mark.parametrize("word", [LONG, "字" * 30, "ab" + "字" * 30, "🎻" * 20, "wait…" * 20, "é" * 29 + "x" * 9])
def test_a_word_that_is_cut_is_shortened_for_people_and_read_back_from_the_vocabulary_alone(word):
    tree = Expression.parse(f"(3 (2 {word}.html) (2 {word}.xml))", SENTIMENT)
    vocabulary = Vocabulary.of_words(tree.texts[1:])
    batch = graph.from_expressions([tree], vocabulary)
    assert batch.ndata["token"].tolist() == [-1, 1, 2], "words with an equal beginning"
    _, (_, *names) = graph.node_names(batch, SENTIMENT, shorten=True)
    shown = names[0].removeprefix("Word:")
    assert names[0] == names[1] and shown.endswith("…") and word.startswith(shown[:-1]) and 54 < len(shown.encode()) < 63
    assert_raises(GraphError, "The text of node 1 is cut", graph.to_expressions, batch, SENTIMENT)
    with pytest.raises(GraphError, match="The text of node 1 is cut"):
        graph.to_expressions(batch, SENTIMENT, Vocabulary.of_words([f"x{word}", f"y{word}"]))
    assert graph.node_names(batch, SENTIMENT, vocabulary, shorten=True)[1][1:] == [f"Word:{text}" for text in tree.texts[1:]]
    assert graph.to_expressions(batch, SENTIMENT, vocabulary) == [tree]
