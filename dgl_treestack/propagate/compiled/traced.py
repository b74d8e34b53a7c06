"""A cell's step and its gradient as functions of lists of tensors, with the per-operator linear maps left opaque.

    forward    [buffers (R, *shape)..., children's rows (n * A,), external input, noise..., rows of the buffers to write...]
               -> [results y of the linear maps, call by call]
    backward   [buffers..., children's rows, external input, noise..., y..., gradients of the rows written...]
               -> [gradients of children's fields and external input..., x and gradient of y, call by call...]

Backward recomputes pointwise operations from the children and the saved y; no linear map is computed twice.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from dgl_treestack import _torch
from dgl_treestack.cells import Cell, Shape, State

Linear = Callable[[Tensor, int, int, bool], Tensor]  # x, number of the call, width of the result, whether transposed


@dataclass(frozen=True)
class Form:
    """The form of a step: the arity of its nodes, whether they have external input, the fields with dropout."""

    arity: int
    external: bool
    noise: tuple[str, ...]


class _TracedOps:
    """`Ops` that records the product, x and result y of every call of `linear`.

    linear_of_call: computes them, the operator `treestack::linear` of native code or another one. saved: results, for backward.
    """

    def __init__(self, cell: Cell, arity: int, linear_of_call: Linear, saved: Sequence[Tensor] | None = None):
        self.cell, self.arity, self.linear_of_call, self.saved = cell, arity, linear_of_call, saved
        self.products: list[str] = []
        self.x: list[Tensor] = []
        self.y: list[Tensor] = []

    def linear(self, product: str, x: Tensor) -> Tensor:
        # Products of one x are not joined, because their shapes would have to agree. It costs the Tree-RNN with a
        # scalar stack, whose step has five products, a tenth of the time at batch 32.
        call, (of_node, of_child) = len(self.x), self.cell.products[product].outputs
        self.products.append(product)
        self.x.append(x.contiguous())
        if self.saved is None:
            self.y.append(self.linear_of_call(self.x[call], call, of_node + of_child * self.arity, False))
        else:
            self.y.append(cast(Tensor, _SavedLinear.apply(self.x[call], self.saved[call], call, self.linear_of_call)))
        return self.y[call]


class _SavedLinear(torch.autograd.Function):
    """A linear map whose result y is saved."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, call: int, linear: Linear) -> Tensor:
        ctx.x_shape, ctx.call, ctx.linear = x.shape, call, linear
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, gradient_y: Tensor) -> tuple[Tensor | None, ...]:
        width = ctx.x_shape[-1]
        if not ctx.needs_input_grad[0] or not width:  # a bias alone has x of width 0
            return None, gradient_y, None, None
        # Contiguous: the gradient of a single node can have odd strides. Read as rows in order, it was off by 0.125 in
        # the Tree-LSTM with two stacks.
        return ctx.linear(gradient_y.contiguous(), ctx.call, width, True), gradient_y, None, None


class TracedStep:
    """Forward and backward of a cell's step of one form, example inputs for tracing, and what the native loop needs to know:

    products: the product of every call of `linear`. y_shapes: shapes of the results, without the first dimension.
    destinations: for every gradient that `backward` returns, the index of its field, or -1 for external input.
    calls_with_gradient: the calls whose x and gradient of y `backward` returns after that.
    linear: computes linear maps, by default the operator of native code.
    """

    def __init__(self, cell: Cell, form: Form, dtype: torch.dtype, device: torch.device, linear: Linear | None = None):
        self._cell, self.form, self.dtype, self.device = weakref.ref(cell), form, dtype, device
        self.linear = linear or torch.ops.treestack.linear
        external = [(cell.input_size,)] if form.external else []
        self.node_shapes: list[Shape] = [*external, *(cell.noise[name] for name in form.noise)]
        with _torch.fake_tensors():
            ops, nodes = _TracedOps(cell, form.arity, self.linear), 3
            cell.checked((self._step(ops, *self._read(self._inputs(nodes, 2 * nodes))), {}), nodes)
            self.products, self.y_shapes = tuple(ops.products), tuple(tuple(y.shape[1:]) for y in ops.y)
            gradients, pairs = self._gradients(self.examples(backward=True)[0])
        self.destinations, self.calls_with_gradient = tuple(gradients), tuple(sorted(pairs))

    @property
    def cell(self) -> Cell:
        """The cell, referenced weakly: steps are cached as long as their cell exists."""
        cell = self._cell()
        assert cell is not None, "the cell of this step was deleted"
        return cell

    def forward(self, tensors: list[Tensor]) -> list[Tensor]:
        """See the module's docstring."""
        ops = _TracedOps(self.cell, self.form.arity, self.linear)
        state = self._step(ops, *self._read(tensors))
        rows = [row for name in self.cell.fields for row in rows_of(state[name])]
        for destination, row in zip(tensors[-len(rows) :], rows, strict=True):
            destination.copy_(row)
        return ops.y

    def backward(self, tensors: list[Tensor]) -> list[Tensor]:
        """See the module's docstring."""
        gradients, pairs = self._gradients(tensors)
        return [*gradients.values(), *(tensor for call in sorted(pairs) for tensor in pairs[call])]

    def _gradients(self, tensors: list[Tensor]) -> tuple[dict[int, Tensor], dict[int, tuple[Tensor, Tensor]]]:
        """Gradients by destination, and x and gradient of y by call, where there is a gradient."""
        fields, calls = list(self.cell.fields), len(self.products)
        row_gradients = tensors[-len(fields) :]
        y = [saved.detach().requires_grad_() for saved in tensors[-len(fields) - calls : -len(fields)]]
        children, per_node = self._read(tensors)
        leaves = {i: children[name].requires_grad_() for i, name in enumerate(fields)}
        if self.form.external:
            leaves[-1] = per_node[0] = per_node[0].detach().requires_grad_()
        with torch.enable_grad():
            ops = _TracedOps(self.cell, self.form.arity, self.linear, y)
            state = self._step(ops, children, per_node)
            outputs = [(state[name], g) for name, g in zip(fields, row_gradients, strict=True) if state[name].requires_grad]
            gradients = torch.autograd.grad(
                [value for value, _ in outputs], [*leaves.values(), *y], [g for _, g in outputs], allow_unused=True
            )
        by_destination = {i: gradient for i, gradient in zip(leaves, gradients, strict=False) if gradient is not None}
        by_call = enumerate(zip(ops.x, gradients[len(leaves) :], strict=True))
        return by_destination, {call: (x, g.contiguous()) for call, (x, g) in by_call if g is not None}

    def _read(self, tensors: Sequence[Tensor]) -> tuple[State, list[Tensor]]:
        """The children's fields (n, A, *shape), gathered child by child; external input and noise."""
        buffers, index = tensors[: len(self.cell.fields)], tensors[len(self.cell.fields)]
        by_child = index.view(-1, self.form.arity).unbind(1)
        gathered = [torch.stack([buffer.index_select(0, child) for child in by_child], 1) for buffer in buffers]
        per_node = tensors[len(buffers) + 1 :][: len(self.node_shapes)]
        return dict(zip(self.cell.fields, gathered, strict=True)), list(per_node)

    def _step(self, ops: Any, children: State, per_node: Sequence[Tensor]) -> State:
        inputs = per_node[0] if self.form.external else None
        noise = dict(zip(self.form.noise, per_node[self.form.external :], strict=True))
        return self.cell.node(ops, children, inputs, noise)[0]

    def examples(self, *, backward: bool) -> tuple[list[Tensor], list[int]]:
        """Example inputs for tracing, and the rows per node of each; 0 for the buffers.

        The numbers of nodes and rows differ from every other size, so that the tracer does not confuse them.
        """
        arity, state_shapes = self.form.arity, list(self.cell.fields.values())
        shapes = [*state_shapes, *self.node_shapes, *self.y_shapes]
        sizes = {size for shape in shapes for size in (*shape, torch.Size(shape).numel())}
        nodes = next(n for n in range(1009, 10**6, 2) if not {n, n * arity, 2 * n * arity + 1} & sizes)
        inputs = self._inputs(nodes, 2 * nodes * arity + 1)
        last = [self._random(nodes, shape) for shape in ([*self.y_shapes] if backward else []) + state_shapes]
        if not backward:
            last = [row for state in last for row in rows_of(state)]
        return [*inputs, *last], [*[0] * len(state_shapes), arity, *[1] * (len(self.node_shapes) + len(last))]

    def _inputs(self, nodes: int, rows: int) -> list[Tensor]:
        """Buffers, children's rows, external input and noise."""
        buffers = [self._random(rows, shape) for shape in self.cell.fields.values()]
        children = torch.arange(nodes * self.form.arity, device=self.device) % rows
        return [*buffers, children, *(self._random(nodes, shape) for shape in self.node_shapes)]

    def _random(self, count: int, shape: Sequence[int]) -> Tensor:
        return torch.rand(count, *shape, dtype=self.dtype, device=self.device)


def rows_of(field: Tensor) -> Sequence[Tensor]:
    """The rows (n, width) of a field (n, rows, width); a field without rows is its only row."""
    return field.unbind(1) if field.dim() == 3 else (field,)
