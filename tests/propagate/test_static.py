"""A plan of fixed shape, as a GPU records it: a step is recorded as a tape of operations and replayed for other batches."""

import random

import pytest
import torch
from every_cell import FORM_OF_EACH, MODELS, OF_EACH_KIND, VOCABULARY, every_model_in_each_form, make, needs_compiler
from tape import Tape
from trees import UNARY, random_equation, random_tree

from dgl_treestack import MATH, Expression, Operator, Signature, Vocabulary
from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.plain_data import settings_of
from dgl_treestack.propagate import Noise, compute, compute_static, draw_noise
from dgl_treestack.propagate.compiled.fused import inductor
from dgl_treestack.propagate.levels.plan import number_rows
from dgl_treestack.propagate.levels.static import StaticPlan


def batches(count, external, deepest=5, unary=UNARY):
    rng, source = random.Random(3), torch.Generator().manual_seed(3)
    for _ in range(count):
        depths = [rng.randrange(2, deepest) if i % 2 else deepest - 1 for i in range(8)]
        trees = [(random_equation if i % 2 else random_tree)(rng, depth, unary=unary) for i, depth in enumerate(depths)]
        batch = graph.from_expressions(trees, VOCABULARY)
        batch.ndata["input"] = torch.randn(batch.num_nodes(), external, dtype=torch.float64, generator=source)
        yield batch


def weighted(states, names, nodes, is_node):
    """A number that depends on all states and signals of the nodes."""
    return sum((torch.tanh(states.of(name, nodes)).flatten(1) * is_node[:, None]).sum() for name in names)


def as_traced(graph, examples, sizes):
    """In place of a compiler: the graph itself."""
    return graph


def compare(cell, sources, noises, rows, signature=MATH, signals=(), build=None):
    """Record a step of the first batch, replay it for the others, and compare states, signals and gradients with `levels`."""
    static = StaticPlan(rows[:-2], cell, signature, torch.device("cpu"))
    static.build = build
    like = torch.zeros(static.nodes, dtype=torch.float64)
    noise = {name: torch.zeros(static.nodes, *values.shape[1:], dtype=torch.float64) for name, values in noises[0].items()}
    inputs = like.new_zeros(static.nodes, cell.input_size).requires_grad_() if cell.input_size else None
    is_node, nodes, replayed = like.clone(), torch.arange(static.nodes), 0
    names = [*cell.fields, *(f"signal/{name}" for name in signals)]

    def load(i):
        indices, size = static.indices(rows[i]), sources[i].num_nodes()
        if indices is None:
            return False
        static.buffer.copy_(torch.from_numpy(indices))
        is_node[:size], is_node[size:] = 1, 0
        for name, values in noise.items():
            values[:size] = noises[i][name]
        if inputs is not None:
            inputs.detach()[:size] = sources[i].ndata["input"]
        return True

    assert load(0)
    compute_static(static, cell, signals=signals, noise=noise, inputs=inputs)  # what is kept is then there
    assert static.build is build, "steps were not compiled"
    parameters = [*cell.parameters(), *([] if inputs is None else [inputs])]
    with Tape() as tape:
        states = compute_static(static, cell, signals=signals, noise=noise, inputs=inputs)
        by_node = [states.of(name, nodes) for name in names]
        gradients = torch.autograd.grad(weighted(states, names, nodes, is_node), parameters, allow_unused=True)
    for i, source in enumerate(sources):
        if not load(i):
            continue
        replayed += 1
        tape.replay()
        size = source.num_nodes()
        if inputs is not None:
            source.ndata["input"].requires_grad_()
        wanted = compute(source, cell, signature=signature, signals=signals, noise=noises[i])
        for name, values in zip(names, by_node, strict=True):
            torch.testing.assert_close(values[:size], wanted.of(name, torch.arange(size)), rtol=1e-12, atol=1e-12)
        given = [*cell.parameters(), *([] if inputs is None else [source.ndata["input"]])]
        loss = weighted(wanted, names, torch.arange(size), torch.ones(size, dtype=torch.float64))
        for actual, gradient in zip(gradients, torch.autograd.grad(loss, given, allow_unused=True), strict=True):
            if gradient is not None:
                torch.testing.assert_close(actual[: len(gradient)], gradient, rtol=1e-12, atol=1e-12)
            elif actual is not None:
                assert not actual.any()
    return replayed


@every_model_in_each_form
def test_a_replayed_step_is_that_of_levels(name, form):
    """With dropout, external input and signals, each node alone, and of some with equal subtrees shared; numbers at leaves."""
    for external in (2, 0) if name in OF_EACH_KIND else (2,):
        cell = make(name, input_size=external, dropout=0.3 * (external > 0), form=form).train()
        sources, generator = list(batches(6, external)), torch.Generator().manual_seed(1)
        noises = [draw_noise(cell, source, generator) for source in sources]
        rows = [number_rows(columns(source, MATH), MATH, shared=not external) for source in sources]
        assert compare(cell, sources, noises, rows, signals=[*cell.signals] if external else ()) >= 4


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), FORM_OF_EACH)
def test_a_traced_step_is_that_of_levels(name, form):
    """What Inductor compiles, for a CPU, too, with external input and dropout; without, it compiles one in the next test.

    Tracing takes the time: stacks are of three rows, and operators of one child are in the trees of Tree-SMU alone.
    """
    small = {"stack_size": 3} if "stack_size" in settings_of(MODELS[name].cell) else {}
    cell = make(name, input_size=2, dropout=0.3, form=form, **small).train()
    sources, generator = list(batches(5, 2, unary=UNARY if name == "tree_smu" else ())), torch.Generator().manual_seed(1)
    noises = [draw_noise(cell, source, generator) for source in sources]
    rows = [number_rows(columns(source, MATH), MATH, shared=False) for source in sources]
    assert compare(cell, sources, noises, rows, build=as_traced) >= 3


def by_gradient(states, cell, count):
    """h of the nodes, and the gradients of all parameters."""
    h = states.of("h", torch.arange(count))
    return [h.detach(), *torch.autograd.grad(h.sin().sum(), [*cell.parameters()], materialize_grads=True)]


@needs_compiler
@pytest.mark.slow
def test_inductor_compiles_one_step_for_all_frontiers_and_batches():
    cell = make("tree_lstm").train()
    sources = list(batches(6, 0, unary=()))  # a step per number of children takes time
    rows = [number_rows(columns(source, MATH), MATH, shared=True) for source in sources]
    static = StaticPlan(rows, cell, MATH, torch.device("cpu"))
    static.build = inductor
    for source, indices in zip(sources, [static.indices(part) for part in rows], strict=True):
        static.buffer.copy_(torch.from_numpy(indices))
        actual = by_gradient(compute_static(static, cell), cell, source.num_nodes())
        assert static.build is inductor
        for a, b in zip(actual, by_gradient(compute(source, cell), cell, source.num_nodes()), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert [step.gathered for step in static.steps.values()] == [[0]]


def test_steps_that_cannot_be_compiled_stay_eager(caplog):
    def refuse(graph, examples, sizes):
        raise RuntimeError("No compiler.\nMore.")

    cell, (source,) = make("tree_rnn").train(), batches(1, 0)
    rows = number_rows(columns(source, MATH), MATH, shared=True)
    static = StaticPlan([rows], cell, MATH, torch.device("cpu"))
    static.buffer.copy_(torch.from_numpy(static.indices(rows)))
    for build, reason in ((refuse, "No compiler."), (wrong, "compiled steps give other gradients")):
        caplog.clear()
        static.build, static.is_checked, static.steps = build, False, {}
        for _ in range(2):
            compute_static(static, cell)
        assert static.build is None
        assert [record.getMessage() for record in caplog.records] == [
            f"TreeRNN cannot be compiled for cpu: {reason}; its steps stay eager"
        ]


def wrong(graph, examples, sizes):
    """In place of a compiler: a step with other results."""
    return lambda *tensors: [2 * result for result in graph(*tensors)]


def test_operators_in_any_order_and_with_any_number_of_children():
    """The maps of one arity are then not neighbours in a stack."""
    signature = Signature("s", (Operator("f", 1), Operator("g", 2), Operator("k", 1), Operator("any", None)), words=True)
    rng = random.Random(2)

    def tree(depth):
        if depth == 0:
            return Expression.leaf("Word", rng.choice("abc"), signature)
        name, arity = rng.choice([("f", 1), ("k", 1), ("g", 2), ("any", rng.randrange(1, 4))])
        return Expression.node(name, *(tree(depth - 1) for _ in range(arity)))

    vocabulary = Vocabulary.of_words("abc")
    cell = make("tree_lstm_child_sum", signature=signature, vocabulary=vocabulary).train()
    sources = [graph.from_expressions([tree(rng.randrange(1, 4)) for _ in range(6)], vocabulary) for _ in range(8)]
    rows = [number_rows(columns(source, signature), signature, shared=True) for source in sources]
    assert compare(cell, sources, [Noise()] * 8, rows, signature) >= 4


def test_a_batch_that_does_not_fit_is_refused():
    cell, small = make("tree_rnn"), list(batches(4, 0, deepest=3))
    rows = [number_rows(columns(source, MATH), MATH, shared=True) for source in (*small, *batches(1, 0, deepest=6))]
    static = StaticPlan(rows[:4], cell, MATH, torch.device("cpu"))
    assert [static.indices(part) is None for part in rows] == [False] * 4 + [True]
    many = number_rows(
        columns(graph.from_expressions([Expression.parse("sin(x)")] * 999, VOCABULARY), MATH), MATH, shared=False
    )
    assert static.indices(many) is None
