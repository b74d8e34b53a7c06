"""`topo` for a cell on a GPU: frontiers from DGL on the CPU, features gathered on the cell's device, here the CPU."""

import torch
from every_cell import every_model_in_each_form, make, some_batch

from dgl_treestack.propagate import draw_noise, propagate, topo


def numbers(batch, cell, noise, signals):
    """States, signals and gradients."""
    batch = batch.clone()
    batch.ndata["input"].requires_grad_()
    propagate(batch, cell, engine="topo", noise=noise, signals=signals)
    outputs = [batch.ndata[name] for name in (*cell.fields, *(f"signal/{name}" for name in signals))]
    loss = sum(torch.tanh(output).sum() for output in outputs)
    gradients = torch.autograd.grad(loss, [*cell.parameters(), batch.ndata["input"]], allow_unused=True)
    return [*outputs, *gradients]


@every_model_in_each_form
def test_gathered_frontiers_have_the_bits_of_dgl(name, form, monkeypatch):
    cell, batch = make(name, input_size=2, dropout=0.3, form=form).train(), some_batch(5, external=2)
    noise = draw_noise(cell, batch, torch.Generator().manual_seed(5))
    for graph in (batch, batch.int()):
        wanted = numbers(graph, cell, noise, [*cell.signals])
        with monkeypatch.context() as patch:
            patch.setattr(topo, "by_dgl", topo.by_frontier)
            actual = numbers(graph, cell, noise, [*cell.signals])
        assert [part is None for part in wanted] == [part is None for part in actual]
        assert all(torch.equal(*pair) for pair in zip(wanted, actual, strict=True) if pair[0] is not None)
