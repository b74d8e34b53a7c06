"""Memory is used again, and only when nobody needs it."""

import gc
import weakref

import pytest
import torch
from every_cell import make, some_batch, traced

from dgl_treestack.data import graph
from dgl_treestack.expression.operators import MATH
from dgl_treestack.propagate import Options, Plans, compute
from dgl_treestack.propagate.levels.sweep import Arena

CPU = torch.device("cpu")
SMALL = Options(arena_numbers=0)  # even the smallest tensor lies in a block


def gradients(cell, loss, **options):
    return torch.autograd.grad(loss, list(cell.parameters()), materialize_grads=True, **options)


def loss_of(cell, batch, engine):
    states = compute(batch, cell, engine=engine, plans=Plans(MATH, options=SMALL))
    return states.of("h", graph.roots(batch)).sin().sum() + states.of("h", torch.arange(3)).sum()


@pytest.mark.parametrize("engine", ["levels", traced])
@pytest.mark.parametrize("name", ["tree_smu", "tree_lstm_two_stacks"])
def test_a_step_leaves_nothing_behind(name, engine):
    """Python's collector of cycles is off, and would not see those that go through autograd."""
    cell, batch = make(name).train(), some_batch()
    gc.disable()
    try:
        states = compute(batch, cell, engine=engine, plans=Plans(MATH, options=SMALL))
        held = weakref.ref(states.arena)
        loss = states.of("h", graph.roots(batch)).sum()
        loss.backward()
        del states
        assert held() is not None, "the graph may be asked again"
        del loss
        assert held() is None
    finally:
        gc.enable()


def test_recomputed_steps_free_their_memory():
    cell, batch, sizes = make("tree_smu").train(), some_batch(count=60), []
    kept = [Arena(torch.float64, CPU, SMALL) for _ in range(3)]  # all memory of earlier sweeps
    for most in (10**6, 0):
        plans = Plans(MATH, options=Options(arena_numbers=0, recorded_rows=most))
        states = compute(batch, cell, engine="levels", plans=plans)
        states.of("h", graph.roots(batch)).sum().backward()
        kept.append(states.arena)
        sizes.append(sum(block.numel() for block in states.arena.blocks))
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("engine", ["levels", traced])
def test_a_cell_that_nobody_holds_is_gone(engine):
    cell = make("tree_smu").train()
    held = weakref.ref(cell)
    loss_of(cell, some_batch(), engine).backward()
    del cell
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("engine", ["levels", traced])
def test_two_steps_at_once_do_not_disturb_each_other(engine):
    cell = make("tree_smu").train()
    first, second = (some_batch(count, count) for count in (8, 3))
    alone = [gradients(cell, loss_of(cell, batch, engine)) for batch in (first, second)]
    losses = [loss_of(cell, batch, engine) for batch in (first, second)]
    with torch.no_grad():
        held = compute(first, cell, engine=engine, plans=Plans(MATH, options=SMALL))
        before = held.rows["stack"].clone()
    together = [gradients(cell, loss, retain_graph=True) for loss in reversed(losses)][::-1]
    again = [gradients(cell, loss) for loss in losses]
    torch.testing.assert_close([together, again], [alone, alone], rtol=0, atol=0)
    assert torch.equal(held.rows["stack"], before)


@pytest.mark.parametrize(("most", "kept"), [(2**20, True), (100, False)])
def test_memory_is_kept_for_the_next_sweep_unless_it_is_very_much(most, kept):
    others = [Arena(torch.float32, CPU, SMALL) for _ in range(3)]  # what earlier sweeps have left
    arena = Arena(torch.float32, CPU, Options(arena_numbers=0, arena_bytes=most))
    start, block = arena.empty(26).data_ptr(), weakref.ref(arena.blocks[0])
    del arena
    assert (block() is not None) == kept
    if kept:
        assert Arena(torch.float32, CPU, SMALL).empty(10).data_ptr() == start, "used again"
    del others
