import every_cell
import pytest
import torch
from each_case import assert_raises, cases
from every_cell import IN_EACH_FORM, VOCABULARY, assert_same_gradients, batch_of, make, needs_compiler, some_batch, traced

from dgl_treestack import MATH, Expression, Operator, Signature, cells
from dgl_treestack.cells.tree_rnn import TreeRNN
from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate import Noise, Options, States, draw_noise, propagate, topo
from dgl_treestack.propagate.compiled import kernels
from dgl_treestack.propagate.compiled.stepper import CompiledStepper
from dgl_treestack.propagate.levels import linear_maps
from dgl_treestack.propagate.levels.eager import EagerStepper
from dgl_treestack.propagate.levels.plan import make_plan
from dgl_treestack.propagate.levels.sweep import Arena, Work, sweep


@every_cell.every_engine
def test_states_stay_on_the_graph_and_nothing_else_does(engine):
    cell, batch = make("tree_smu", stack_size=2), batch_of("x")
    before = set(batch.ndata), set(batch.edata)
    assert propagate(batch, cell, engine=engine).shape == (1, every_cell.HIDDEN)
    assert batch.ndata["stack"].shape == (1, 2 * every_cell.HIDDEN)
    assert (set(batch.ndata) - {"h", "stack"}, set(batch.edata)) == before
    assert_raises(ConfigurationError, "Unknown engine 'fast'", propagate, batch, cell, engine="fast")


@every_cell.every_engine
@cases(
    (lambda h: ({"h": h[:, :2]}, {}), r"Broken returned 'h' of shape \(\d, 2\); its fields promise \(\d, 3\)"),
    (lambda h: ({}, {}), r"Broken returned the fields \[\]; it has declared \['h'\]"),
    (lambda h: ({"h": h, "c": h}, {}), r"the fields \['h', 'c'\]; it has declared \['h'\]"),
    (lambda h: ({"h": h}, {"gate": h}), r"Broken returned the signals \['gate'\]; it has declared \['share'\]"),
    (lambda h: ({"h": h}, {"share": h}), r"Broken returned the signal 'share' of shape \(\d, 3\); declared is \(2,\)"),
    (lambda h: {"h": h}, r"Broken returned a dict, not two dictionaries: state, and signals \(\{\} for none\)"),
)
def test_a_cell_that_breaks_its_promise_is_named(engine, returned, message):
    class Broken(cells.Cell):
        def __init__(self, *sizes, **common):
            super().__init__(*sizes, **common)
            self.signals = {"share": (2,)}

        def node(self, ops, children, inputs, noise):
            return returned(children["h"][:, 0])

    signature = Signature("s", (Operator("f", 1),))
    batch = graph.from_expressions([Expression.from_prefix("f Symbol:x", signature)], VOCABULARY)
    with pytest.raises(RuntimeError, match=message):
        propagate(batch, make(Broken, signature=signature, hidden=3), engine=engine, signature=signature)


@every_cell.every_engine
def test_a_cell_without_what_it_asks_for_is_named(engine):
    class Misspelt(TreeRNN):
        def node(self, ops, children, inputs, noise):
            return {"h": ops.linear("stat", self.join(children["h"]))}, {}

    batch = batch_of("sin(x)")
    assert_raises(KeyError, r"Unknown product 'stat'\. Did you mean 'state'", propagate, batch, make(Misspelt), engine=engine)

    class WithoutH(TreeRNN):
        def __init__(self, *sizes, **common):
            super().__init__(*sizes, **common)
            self.fields = {"c": (self.hidden,)}

    class WithoutNoise(TreeRNN):
        def __init__(self, *sizes, **common):
            super().__init__(*sizes, **common)
            self.noise = {}

    with pytest.raises(ConfigurationError, match=r"'WithoutNoise' declares no noise, so that dropout = 0\.3 has no effect"):
        make(WithoutNoise, dropout=0.3)
    assert_raises(ConfigurationError, r"The fields of 'WithoutH' are .*; tasks read 'h', which must be", make, WithoutH)


@cases(
    *((*case, "levels") for case in IN_EACH_FORM),
    *(pytest.param(*case, "levels/traced", marks=every_cell.if_traced) for case in every_cell.FORM_OF_EACH),
)
def test_levels_has_the_gradients_of_topo(name, form, engine):
    """With sharing and without, dropout and external input, signals and none, batches of changing size, steps recorded or taken
    again, with tensors from the memory of a sweep, as those of large batches are."""
    cell, external = (make(name, input_size=size, dropout=0.3, form=form).train() for size in (0, 2))
    for count, recorded_rows in ((8, 10**6), (3, 0)):
        options = Options(arena_numbers=0, recorded_rows=recorded_rows)
        batch, source = some_batch(count, count, external=2), torch.Generator().manual_seed(count)
        noise = draw_noise(cell, batch, source, per_subtree=recorded_rows > 0)
        assert_same_gradients(cell, batch, engine, noise, options=options)
        noise = draw_noise(external, batch, source) if recorded_rows else None
        signals = list(cell.signals) if recorded_rows and engine == "levels" else ()
        assert_same_gradients(external, batch, engine, noise, signals, options=options)


@cases(
    *((*case, (2**13, 4, 2**14)) for case in IN_EACH_FORM),
    *(pytest.param(name, "nary", (0, 2, 0), marks=pytest.mark.slow) for name in every_cell.OF_EACH_KIND),
)
def test_grouped_products_have_the_gradients_of_topo(monkeypatch, name, form, limits):
    """Those of a GPU, in one batched product per frontier; with the second limits some are too sparse and computed apart."""
    for limit, value in zip(("PADDED_ROWS", "PADDED_TIMES", "GROUPED_ROWS"), limits, strict=True):
        monkeypatch.setattr(linear_maps, limit, value)
    cell, options = make(name, input_size=2, form=form).train(), Options(group=True, recorded_rows=10**6 * (limits[0] > 0))
    assert_same_gradients(cell, some_batch(8, external=2), "levels", None, list(cell.signals), options=options)


@needs_compiler
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_products_of_another_dtype(dtype, tolerance):
    """BLAS does not know bfloat16, which has two digits: its products are torch's, as on other devices."""
    cell, batch = make("mtree_lstm_stack").to(dtype).train(), some_batch()
    wanted, actual = (every_cell.gradients(cell, batch, engine, None, ()) for engine in ("levels", "levels/traced"))
    assert {name for name, one in wanted.items() if one is None} == {name for name, one in actual.items() if one is None}
    for name, gradient in wanted.items():
        if gradient is not None:
            assert (actual[name] - gradient).abs().max() <= tolerance * gradient.abs().max(), name


@needs_compiler
def test_a_bias_of_another_dtype_is_an_error_and_no_writing_beyond_the_end():
    cell, batch = make("tree_lstm").float(), some_batch()
    for name, parameter in cell.products.named_parameters():
        if "bias" in name:
            parameter.data = parameter.data.double()
    assert_raises(RuntimeError, "weight and bias are of different types", propagate, batch, cell, engine="levels/traced")


class WithModules(cells.Cell):
    """Parameters that all operators share, besides a product: a parameter, layers of torch, one of them in a signal alone."""

    def __init__(self, *sizes, **common):
        super().__init__(*sizes, **common)
        self.signals, self.noise = {"gate": (self.hidden,)}, {"h": (self.hidden,)}
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))
        self.scale = torch.nn.Parameter(torch.full((self.hidden,), 0.5))
        self.unused = torch.nn.Parameter(torch.ones(()))
        self.mixed = torch.nn.Sequential(torch.nn.Linear(self.hidden, self.hidden), torch.nn.LayerNorm(self.hidden))
        self.gate = torch.nn.Linear(self.hidden, self.hidden)

    def node(self, ops, children, inputs, noise):
        h = torch.tanh(ops.linear("state", self.join(children["h"], inputs))) * self.scale + self.mixed(children["h"].mean(1))
        return {"h": cells.dropped(h, noise, "h")}, {"gate": torch.sigmoid(self.gate(h))}


@pytest.mark.parametrize("form", cells.FORMS)
@pytest.mark.parametrize("options", [Options(), Options(arena_numbers=0, recorded_rows=0), Options(group=True)])
def test_parameters_that_all_operators_share_have_the_gradients_of_topo(options, form):
    cell, source = make(WithModules, form=form, dropout=0.3, input_size=2).train(), torch.Generator().manual_seed(2)
    batch = some_batch(external=2)
    for signals in ((), ("gate",)):
        assert_same_gradients(cell, batch, "levels", draw_noise(cell, batch, source), signals, options=options)
        assert (cell.gate.weight.grad is None) == (not signals)
    assert cell.unused.grad is None and cell.scale.grad.abs().sum() > 0


def test_parameters_that_all_operators_share_come_from_the_seed_and_are_refused_by_native_code():
    cell, again, other = make(WithModules), make(WithModules), make(WithModules, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(cell.parameters(), again.parameters(), strict=True))
    assert not torch.equal(cell.mixed[0].weight, other.mixed[0].weight)
    before = torch.get_rng_state()
    cell.reset_parameters(torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ConfigurationError, match="WithModules has parameters besides those of add_product and add_map"):
        propagate(some_batch(), cell, engine="levels/traced")


@pytest.mark.parametrize("engine", ["levels", traced])
def test_weights_may_be_replaced_at_any_time(engine):
    cell, source = make("tree_smu").train(), torch.Generator().manual_seed(0)
    gates = cell.products["gates"]
    assert_same_gradients(cell, batch_of("sin(x)"), engine)
    batch = batch_of("sin(x + y)*x")
    assert_same_gradients(cell, batch, engine)
    gates.weight2 = torch.nn.Parameter(torch.rand(gates.weight2.shape, dtype=torch.float64, generator=source))
    assert_same_gradients(cell, batch, engine)


def penalty(cell, batch, engine, parameters, readout):
    """The sum of squares of all gradients of a loss."""
    loss = torch.tanh(readout(propagate(batch, cell, engine=engine))).sum()
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
    return sum(gradient.square().sum() for gradient in gradients if gradient is not None)


@pytest.mark.parametrize("engine", ["levels", traced])
@pytest.mark.parametrize("asked_for", ["backward", "grad of all parameters", "grad of those after the sweep"])
def test_second_derivatives_are_an_error_however_they_are_asked_for(engine, asked_for):
    cell, batch = make("tree_smu").train(), some_batch()
    readout = torch.nn.Linear(every_cell.HIDDEN, 1).double()
    parameters = [*cell.parameters(), *readout.parameters()]
    sources = parameters if asked_for.endswith("all parameters") else list(readout.parameters())
    wanted = torch.autograd.grad(penalty(cell, batch, "topo", parameters, readout), sources, allow_unused=True)
    assert any(gradient.abs().sum() > 0 for gradient in wanted)
    with pytest.raises(RuntimeError, match="Second derivatives are not available"):
        if asked_for == "backward":
            penalty(cell, batch, engine, parameters, readout).backward()
        torch.autograd.grad(penalty(cell, batch, engine, parameters, readout), sources, allow_unused=True)


@needs_compiler
def test_a_bias_alone_has_gradients_whatever_x_is():
    """Here one per child, where the package's cells have one per node."""

    class Biased(TreeRNN):
        def __init__(self, *sizes, **common):
            super().__init__(*sizes, **common)
            self.add_product("offset", (0, 0), (self.hidden, 0))

        def node(self, ops, children, inputs, noise):
            offset = ops.linear("offset", children["h"].new_empty(*children["h"].shape[:2], 0))
            return super().node(ops, {"h": children["h"] + offset}, inputs, noise)

    assert_same_gradients(make(Biased), some_batch(), "levels/traced")


@pytest.mark.parametrize("engine", ["levels", traced])
def test_a_failed_backward_pass_leaves_no_gradients(engine):
    class Failing(TreeRNN):
        steps_left = 10**6

        def node(self, *arguments):
            Failing.steps_left -= 1
            if not Failing.steps_left:
                raise RuntimeError("stopped")
            return super().node(*arguments)

    cell, batch = make(Failing).train(), some_batch()
    h = propagate(batch, cell, engine=engine, options=Options(recorded_rows=0))  # backward takes the steps again
    h.sum().backward(retain_graph=True)
    wanted = [parameter.grad.clone() for parameter in cell.products.parameters() if parameter.grad is not None]
    Failing.steps_left = 3
    with pytest.raises(RuntimeError, match="stopped"):
        h.sum().backward(retain_graph=True)
    cell.zero_grad()
    h.sum().backward()
    actual = [parameter.grad for parameter in cell.products.parameters() if parameter.grad is not None]
    assert wanted and all(map(torch.equal, actual, wanted))


@pytest.mark.parametrize("engine", ["levels", traced])
def test_gradients_of_weights_may_be_deferred_or_not(engine):
    cell, batch = make("mtree_lstm_stack").train(), some_batch()
    for rows in (0, 7, 10**6):
        for weight in (0, 10**6):
            options = Options(deferred_rows=rows, deferred_weight=weight)
            assert_same_gradients(cell, batch, engine, options=options)
            assert_same_gradients(cell, batch, engine, options=options)  # nothing is left from the first time


def test_long_levels_are_cut():
    cell, batch = make("tree_smu"), some_batch()
    cut = plan_of(batch, shared=False, frontier_rows=3).frontiers
    assert len(cut) > len(plan_of(batch, shared=False).frontiers) and max(f.stop - f.start for f in cut) == 3
    assert_same_gradients(cell, batch, "levels", options=Options(frontier_rows=3, share=False))


def plan_of(source, *, shared, device="cpu", **options):
    return make_plan(columns(source, MATH), MATH, shared=shared, device=torch.device(device), **options)


def test_equal_subtrees_share_a_row_and_only_they():
    trees = [Expression.parse(text) for text in ("sin(x + y)", "sin(y + x)", "x + y", "sin(x + y) = x + y")]
    written = [str(tree.subtree(node)) for tree in trees for node in range(tree.size)]
    row = plan_of(graph.from_expressions(trees, VOCABULARY), shared=True).row.tolist()
    assert {(a, b) for a, b in zip(row, written, strict=True)} == {(row[written.index(text)], text) for text in set(written)}
    assert len(set(row)) == len(set(written))


@pytest.mark.parametrize("engine", ["levels", traced])
@every_cell.every_model
def test_the_sweep_is_of_any_device_and_never_waits_for_it(name, engine):
    """On the device `meta`, which has shapes and no numbers: a tensor left on the CPU, or a number asked for, is an error."""
    cell = make(name).to("meta").train()
    batch = some_batch()
    plan = plan_of(batch, shared=True, device="meta")
    work = Work(cell, plan, None, Noise(), cell.fields, Arena(torch.float64, torch.device("meta"), Options()))
    stepper = EagerStepper(work) if engine == "levels" else CompiledStepper(work, kernels.eager)
    leaves = torch.empty(len(plan.token), cell.hidden, dtype=torch.float64, device="meta", requires_grad=True)
    states = States(sweep(work, stepper, leaves), plan.row)
    states.of("h", graph.roots(batch)).sum().backward()
    assert leaves.grad.device.type == "meta"
    assert all(parameter.grad.shape == parameter.shape for parameter in stepper.parameters if parameter.grad is not None)
    assert any(parameter.grad is not None for parameter in stepper.parameters)


def test_masks_of_equal_subtrees_are_equal_only_if_asked_for():
    cell = make("tree_smu", dropout=0.5).train()
    batch = graph.from_expressions([Expression.parse("sin(x + y)*sin(x + y) = sin(x + y)")] * 5, VOCABULARY)
    number = torch.from_numpy(columns(batch, MATH).subtree)
    for per_subtree in (True, False):
        factors = draw_noise(cell, batch, torch.Generator().manual_seed(0), per_subtree=per_subtree)["u"]
        first = torch.stack([factors[(number == n).nonzero()[0, 0]] for n in number.tolist()])
        assert torch.equal(first, factors) == per_subtree


def numbers(batch, cell, noise, signals):
    """States, signals and gradients by `topo`."""
    batch = batch.clone()
    batch.ndata["input"].requires_grad_()
    propagate(batch, cell, engine="topo", noise=noise, signals=signals)
    outputs = [batch.ndata[name] for name in (*cell.fields, *(f"signal/{name}" for name in signals))]
    loss = sum(torch.tanh(output).sum() for output in outputs)
    gradients = torch.autograd.grad(loss, [*cell.parameters(), batch.ndata["input"]], allow_unused=True)
    return [*outputs, *gradients]


@every_cell.every_model_in_each_form
def test_gathered_frontiers_have_the_bits_of_dgl(name, form, monkeypatch):
    """Of `topo` for a cell on a GPU: frontiers from DGL on the CPU, features gathered on the cell's device, here the CPU."""
    cell, batch = make(name, input_size=2, dropout=0.3, form=form).train(), some_batch(5, external=2)
    noise = draw_noise(cell, batch, torch.Generator().manual_seed(5))
    for given in (batch, batch.int()):
        wanted = numbers(given, cell, noise, [*cell.signals])
        with monkeypatch.context() as patch:
            patch.setattr(topo, "by_dgl", topo.by_frontier)
            actual = numbers(given, cell, noise, [*cell.signals])
        assert [part is None for part in wanted] == [part is None for part in actual]
        assert all(torch.equal(*pair) for pair in zip(wanted, actual, strict=True) if pair[0] is not None)
