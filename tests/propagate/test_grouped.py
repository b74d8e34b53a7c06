"""The kernels in Triton, interpreted on a CPU, against operations of torch. Triton does not come with torch for a CPU."""

import itertools
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from each_case import cases
from every_cell import VOCABULARY, make
from trees import random_equation

from dgl_treestack.data import graph
from dgl_treestack.data.forest import columns
from dgl_treestack.expression.operators import MATH
from dgl_treestack.propagate import compute, compute_static
from dgl_treestack.propagate.levels import grouped
from dgl_treestack.propagate.levels.plan import number_rows
from dgl_treestack.propagate.levels.static import StaticPlan

CPU = torch.device("cpu")


is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
inside = pytest.mark.skipif(not is_interpreted, reason="runs in the process of the first test, where Triton interprets")


@pytest.fixture
def kernels():
    """The module of kernels."""
    grouped.kernels.cache_clear()
    from dgl_treestack.propagate.levels import triton_kernels

    yield triton_kernels
    grouped.kernels.cache_clear()


@pytest.mark.skipif(is_interpreted, reason="it starts this process")
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_in_a_process_where_triton_interprets():
    """Triton decides when it is imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2])
    assert not result.returncode, result.stdout[-3000:]


def close(actual, expected):
    bound = 1e-5 if actual.dtype == torch.float32 else 1e-12
    assert (actual - expected).abs().max() <= bound * expected.abs().max()


@inside
@cases(
    (64, 96, 24, 1, torch.float32),
    (50, 70, 8, 3, torch.float32),
    (7, 33, 72, 1, torch.float64),
    (50, 50, 40, 1, torch.float64),
)
def test_kernels_are_products(kernels, width, columns, length, repeats, dtype):
    """Of the maps 2, 0 and 3 of four, one and several rows per node, with the children's rows gathered and without."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, dtype=dtype, generator=generator)

    assert grouped.kernels(CPU, dtype) is kernels
    maps, count = torch.tensor([2, 0, 3]), 3 * length
    weight, bias, rows = draw(4, columns, 2 * width), draw(4, columns), draw(31, width)
    children = torch.randint(31, (2 * count,), generator=generator)
    alone = draw(count, repeats, 2 * width)
    for x, index in ((alone, None), (rows, children)):
        y = grouped.linear(x, index, weight, bias, maps, False)
        inputs = (alone if index is None else rows[children].view(count, 2 * width)).unflatten(0, (3, length))
        close(
            y.unflatten(0, (3, length)), torch.einsum("sn...i,soi->sn...o", inputs, weight[maps]) + expanded(bias[maps], inputs)
        )
        gradient_y, gradients = draw(*y.shape), [torch.zeros_like(weight), torch.zeros_like(bias)]
        grouped.add_gradients(gradient_y, x, index, maps, *gradients)
        outer = gradient_y.unflatten(0, (3, length)).flatten(1, -2)
        close(gradients[0][maps], torch.einsum("sno,sni->soi", outer, inputs.flatten(1, -2)))
        close(gradients[1][maps], outer.sum(1))
        assert not gradients[0][1].any()
        again = [torch.zeros_like(weight), torch.zeros_like(bias)]
        grouped.add_gradients(gradient_y, x, index, maps, *again)
        assert all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True))
        gradient_x = grouped.linear(gradient_y, None, weight, None, maps, True)
        close(gradient_x.unflatten(0, (3, length)).flatten(1, -2), torch.bmm(outer, weight[maps]))


def expanded(bias, inputs):
    return bias.view(len(bias), *[1] * (inputs.dim() - 2), -1)


@inside
def test_sums(kernels):
    assert grouped.kernels(CPU, torch.float32) is kernels
    values, index = torch.randn(90, 70, generator=torch.Generator().manual_seed(0)), torch.arange(89).flip(0)
    offsets = torch.tensor([0, 1, 1, 80, 89])
    for order in (index, None):
        sums = torch.ones(4, 70)
        grouped.add_sums(sums, values, order, offsets)
        chosen = values if order is None else values[order]
        close(sums, torch.stack([1 + chosen[a:b].sum(0) for a, b in itertools.pairwise(offsets)]))


@inside
def test_a_step_with_kernels_is_that_of_levels(kernels):
    cell = make("tree_rnn", hidden=3).train()
    rng = random.Random(0)
    sources = [graph.from_expressions([random_equation(rng, 2) for _ in range(3)], VOCABULARY) for _ in range(3)]
    rows = [number_rows(columns(source, MATH), MATH, shared=True) for source in sources]
    static = StaticPlan(rows, cell, MATH, CPU)
    assert grouped.kernels(CPU, torch.float64) is kernels
    static.buffer.copy_(torch.from_numpy(static.indices(rows[0])))
    results = []
    for states in (compute_static(static, cell), compute(sources[0], cell)):
        h = states.of("h", torch.arange(sources[0].num_nodes()))
        results.append([h, *torch.autograd.grad(h.sin().sum(), [*cell.parameters()])])
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


@inside
def test_without_a_compiler_there_is_one_line(kernels, monkeypatch, caplog):
    def refuse(*_):
        raise RuntimeError("Failed to find C compiler.\nMore.")

    monkeypatch.setattr(kernels, "linear", refuse)
    assert grouped.kernels(CPU, torch.float32) is None and grouped.kernels(CPU, torch.float32) is None
    assert [record.getMessage() for record in caplog.records] == [
        "no Triton kernels on cpu: Failed to find C compiler.; linear maps are batched products there"
    ]
