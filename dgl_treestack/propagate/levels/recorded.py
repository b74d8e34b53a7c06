"""A step as the cell has it, recorded by autograd chunk by chunk: for any cell, any signal, without preparation.

Records take up several times as much as the buffers, so of a large batch none are kept: on the way back every chunk takes its
step again (Chen et al. 2016, https://arxiv.org/abs/1604.06174).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dgl_treestack.propagate.levels.plan import Chunk
from dgl_treestack.propagate.levels.products import Products
from dgl_treestack.propagate.levels.sweep import Buffers, Work
from dgl_treestack.propagate.promise import check_state

MOST_RECORDED = 2**17  # rows of a batch whose records are kept


class Record(NamedTuple):
    """What a step read (children's fields, perhaps external input) and what came out."""

    read: list[Tensor]
    outputs: Buffers


class Recorded:
    """A `Stepper`."""

    def __init__(self, work: Work):
        self.work, self.products = work, Products(work.cell, work.plan.operators, work.memory)
        self.parameters = list(self.products.parameters.values())
        self.anchor = torch.empty(0, requires_grad=True)
        self.kept: list[Record] = []

    def ahead(self, buffers: Buffers, recording: bool) -> None:
        memory = self.work.memory
        keeping = recording and self.work.plan.rows <= MOST_RECORDED
        for chunk in self.work.plan.chunks:
            mark = memory.mark()
            record = self._step(chunk, buffers, keeping)
            for name, value in record.outputs.items():
                buffers[name][chunk.start : chunk.stop, : value.shape[1]] = value.detach()
            if keeping:
                self.kept.append(record)
            else:
                memory.back_to(mark)

    def back(self, buffers: Buffers, gradients: Buffers, of_inputs: Tensor | None) -> None:
        # Memory is given back when no rows wait: they may be gradients of another product's x, passed on as they were.
        memory = self.work.memory
        self.products.settle()  # what a way back that failed has left
        for number in reversed(range(len(self.work.plan.chunks))):
            chunk, mark = self.work.plan.chunks[number], memory.mark()
            if self.kept:
                self._step_back(chunk, self.kept[number], gradients, of_inputs)
            else:
                self._step_back(chunk, self._step(chunk, buffers, recording=True), gradients, of_inputs)
                self.products.settle_waiting()
                memory.back_to(mark)

    def settle(self) -> list[Tensor | None]:
        found = self.products.settle()
        return [found.pop(key, None) for key in self.products.parameters]  # held once, autograd need not copy them

    def _step(self, chunk: Chunk, buffers: Buffers, recording: bool) -> Record:
        work, count = self.work, chunk.stop - chunk.start
        children = {
            name: buffers[name].index_select(0, chunk.children).unflatten(0, (count, chunk.arity)).requires_grad_(recording)
            for name in work.cell.fields
        }
        inputs, noise = work.of(chunk)
        if inputs is not None and recording:
            inputs = inputs.detach().requires_grad_()
        with torch.set_grad_enabled(recording):
            state, signals = work.cell.node(_Ops(self, chunk), children, inputs, noise)
        check_state(state, work.cell, count)
        outputs = {**state, **{name: signals[name] for name in work.signals if name in signals}}
        return Record([*children.values(), *([] if inputs is None else [inputs])], outputs)

    def _step_back(self, chunk: Chunk, kept: Record, gradients: Buffers, of_inputs: Tensor | None) -> None:
        outputs = {name: value for name, value in kept.outputs.items() if value.requires_grad}
        arriving = [gradients[name][chunk.start : chunk.stop, : value.shape[1]] for name, value in outputs.items()]
        got = torch.autograd.grad([*outputs.values()], kept.read, arriving, allow_unused=True, retain_graph=True)
        for name, gradient in zip(self.work.cell.fields, got, strict=False):
            if gradient is not None:
                gradients[name].index_add_(0, chunk.children, gradient.flatten(0, 1))
        if of_inputs is not None and got[-1] is not None:
            of_inputs.index_add_(0, chunk.nodes, got[-1])


class _Ops:
    """`Ops` for a chunk: every segment's rows go through their own operator's map.

    The anchor, an empty tensor that requires a gradient, has a product recorded whatever it is applied to.
    """

    def __init__(self, stepper: Recorded, chunk: Chunk):
        self.stepper, self.chunk = stepper, chunk

    def linear(self, product: str, x: Tensor) -> Tensor:
        return _Product.apply(x, self.stepper.anchor, self.stepper.products, product, self.chunk)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, products: Products, product: str, chunk: Chunk) -> Tensor:
        ctx.save_for_backward(x)
        ctx.products, ctx.product, ctx.chunk = products, product, chunk
        return products.ahead(product, chunk, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, arriving: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return ctx.products.back(ctx.product, ctx.chunk, x, arriving), None, None, None, None
