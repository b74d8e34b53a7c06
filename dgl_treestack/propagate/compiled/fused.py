"""Steps of a static plan from the traces of native code, compiled just in time by Inductor for a GPU.

A frontier is then about eight kernels in place of 57: pointwise code up to a linear map and after it, the linear map, their
gradients, and sums over uses. A linear map is the custom operator `grouped.linear`, which gathers the rows of the children
itself where its input is nothing else.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.export import Dim

from dgl_treestack import _torch
from dgl_treestack.cells import Cell
from dgl_treestack.propagate.compiled import kernels
from dgl_treestack.propagate.compiled.cache import private_folders
from dgl_treestack.propagate.compiled.traced import Form, TracedStep, rows_of
from dgl_treestack.propagate.levels import grouped
from dgl_treestack.propagate.levels.plan import Frontier
from dgl_treestack.propagate.levels.static import Build, StaticPlan, StaticStepper
from dgl_treestack.propagate.levels.sweep import Buffers, Stepper, Work

aten = torch.ops.aten

# No benchmarks that choose the order of a sum: two trainings are equal to the last bit. No CUDA graphs: the step is recorded.
OPTIONS: dict[str, Any] = {"deterministic": True, "triton.cudagraphs": False}
Operands = tuple[Tensor | None, Tensor | None, Tensor]  # of a linear map: weight, bias, and the maps of the segments
_STEPS: dict[tuple[Any, ...], "FusedStep"] = {}  # of this process, under the cache keys of native code


def inductor(graph: fx.GraphModule, examples: list[Tensor], sizes: Sequence[dict[int, Any]]) -> Callable[..., Any]:
    """Compile a graph. sizes: the dimensions of every example that vary."""
    program = torch.export.export(graph, tuple(examples), dynamic_shapes=tuple(sizes), strict=False)
    return _torch.compile_here(program, OPTIONS)


class FusedStep:
    """A cell's step and its gradient, compiled, on parts of the buffers of a static plan. See `_forward` and `_backward`.

    gathered: by call of `linear`, the index of the field whose rows of the children are x; None if x is something else.
    """

    def __init__(self, traced: TracedStep, operands: Sequence[Operands], build: Build):
        form, shapes, arity = traced.form, list(traced.cell.fields.values()), traced.form.arity
        self.products, self.destinations, self.calls = traced.products, traced.destinations, traced.calls_with_gradient
        self.fields, self.gathered = len(shapes), list[int | None]()
        nodes, rows, total = Dim("nodes", min=1), Dim("rows", min=1), Dim("total", min=1)
        self.used: list[list[int]] = []
        self.functions: list[Callable[..., Any]] = []
        for is_backward in (False, True):
            given, _ = traced.examples(backward=is_backward)
            count, like, first = len(given[self.fields]) // arity, given[0], self.fields + 1
            last = [like.new_empty_strided(x.shape, x.stride()) for x in given[first + len(traced.node_shapes) :]]
            for shape in [shapes[i] for i in self.destinations if is_backward and i >= 0]:
                width, size = shape[-1], arity * torch.Size(shape).numel()
                last += [like.new_empty_strided((count, width), (size, 1)) for _ in range(size // width)]
            whole = [like.new_empty(len(like) + 2, *shape) for shape in traced.node_shapes]
            index = torch.arange(count, device=like.device)
            examples = [*given[:first], index, *whole, *last, *_given(operands)]
            function = partial(self._backward if is_backward else self._forward, traced, operands)
            graph, used = kernels._trace(function, examples, [*[0] * self.fields, arity, *[0] * (len(examples) - first)])
            if not is_backward:
                self.gathered = _gather(graph, used, self.fields, arity)
            children = nodes if arity == 1 else arity * nodes
            varying = [{0: rows}] * self.fields + [{0: children}, {0: nodes}] + [{0: total}] * len(whole)
            varying += [{0: nodes}] * len(last) + [{}] * len(_given(operands))
            self.functions.append(build(graph, [examples[i] for i in used], [varying[i] for i in used]))
            self.used.append(used)

    def run(self, is_backward: bool, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the step or its gradient. tensors: as below, with the operands of all calls at the end."""
        return list(self.functions[is_backward](*(tensors[i] for i in self.used[is_backward])))

    def _forward(self, traced: TracedStep, operands: Sequence[Operands], tensors: list[Tensor]) -> list[Tensor]:
        """[buffers..., children's rows, nodes, external input and noise of all nodes..., rows to write...]
        -> [results y of the linear maps, call by call]."""
        return traced.forward(self._inputs(traced, operands, tensors))

    def _backward(self, traced: TracedStep, operands: Sequence[Operands], tensors: list[Tensor]) -> list[Tensor]:
        """[buffers..., children's rows, nodes, external input and noise of all nodes..., y..., gradients of the rows...,
        gradients of the children to write, row by row...] -> [gradient of external input, if there is one; by call, x, unless it
        is gathered, and the gradient of y]."""
        inputs = self._inputs(traced, operands, tensors)
        split = self.fields + 1 + len(traced.node_shapes) + len(self.products) + self.fields
        gradients, written = traced.backward(inputs[:split]), iter(inputs[split:])
        results = []
        for destination, gradient in zip(self.destinations, gradients, strict=False):
            if destination < 0:
                results.append(gradient)
                continue
            for row in gradient.flatten(1, -2).unbind(1):
                next(written).copy_(row)
        pairs = gradients[len(self.destinations) :]
        for call, x, gradient_y in zip(self.calls, pairs[::2], pairs[1::2], strict=True):
            results += [gradient_y] if self.gathered[call] is not None else [x, gradient_y]
        return results

    def _inputs(self, traced: TracedStep, operands: Sequence[Operands], tensors: list[Tensor]) -> list[Tensor]:
        """The inputs of the traced step, whose linear maps get their operands."""
        nodes, per_node = self.fields + 1, self.fields + 2 + len(traced.node_shapes)
        last = len(tensors) - len(_given(operands))
        given = iter(tensors[last:])
        of_calls = [[None if part is None else next(given) for part in of_call] for of_call in operands]

        def linear(x: Tensor, call: int, width: int, transposed: bool) -> Tensor:
            weight, bias, maps = of_calls[call]
            return grouped.linear(x, None, weight, None if transposed else bias, maps, transposed)

        traced.linear = linear
        gathered = [whole.index_select(0, tensors[nodes]) for whole in tensors[nodes + 1 : per_node]]
        return [*tensors[:nodes], *gathered, *tensors[per_node:last]]


def _given(operands: Sequence[Operands]) -> list[Tensor]:
    return [part for of_call in operands for part in of_call if part is not None]


def _shape_alone(x: Tensor, call: int, width: int, transposed: bool) -> Tensor:
    """Stand for a linear map where only the shape of its result matters."""
    return x.new_empty(*x.shape[:-1], width)


def _gather(graph: fx.GraphModule, used: list[int], fields: int, arity: int) -> list[int | None]:
    """Let linear maps gather their input where it is rows of a field, child by child; return the fields, by call."""
    inputs = dict(zip(used, graph.graph.find_nodes(op="placeholder"), strict=True))
    gathered: list[int | None] = []
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.treestack.grouped_linear.default):
        parts = node.args[0].args[0] if node.args[0].target is aten.cat.default else [node.args[0]]
        field = next((i for i in range(fields) if _are_rows(parts, inputs.get(i), inputs.get(fields), arity)), None)
        if field is not None:
            node.args = (inputs[field], inputs[fields], *node.args[2:])
        gathered.append(field)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return gathered


def _are_rows(parts: Sequence[fx.Node], field: fx.Node | None, children: fx.Node | None, arity: int) -> bool:
    """Whether parts are the rows of a field at the first children, the second ones, and so on."""
    for child, part in enumerate(parts):
        if part.target is not aten.index_select.default or part.args[0] is not field:
            return False
        index: Any = part.args[2]
        if (
            index.args[1] != child
            or index.args[0].target is not aten.unbind.int
            or index.args[0].args[0].args[0] is not children
        ):
            return False
    return len(parts) == arity


class FusedStepper(StaticStepper):
    """Steps of a static plan, compiled. For cells without parameters besides those of linear maps, and without signals."""

    def __init__(self, work: Work, static: StaticPlan):
        super().__init__(work, static)
        self.y: list[list[Tensor]] = []
        build, cell = static.build, work.cell
        assert build is not None
        for frontier in work.plan.frontiers:
            if frontier.arity not in static.steps:
                form = Form(frontier.arity, work.inputs is not None, tuple(work.noise))
                traced = TracedStep(cell, form, work.arena.dtype, work.arena.device, _shape_alone)
                operands = self._operands(traced.products, frontier)
                key = kernels._cache_key(traced, False), build, *(part.shape for part in _given(operands))
                step = _STEPS.get(key) or FusedStep(traced, operands, build)
                if key[0] is not None:  # a cell of this package
                    _STEPS[key] = step
                static.steps[frontier.arity] = step

    def forward(self, buffers: Buffers, recording: bool) -> None:
        self.y = []
        for frontier in self.work.plan.frontiers:
            written = [row for name in self.work.cell.fields for row in rows_of(buffers[name][frontier.start : frontier.stop])]
            self.y.append(self._run(False, frontier, buffers, written))

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None:
        self.take_gradients()  # discards those of a failed backward pass
        fields = list(self.work.cell.fields)
        for i in reversed(range(len(self.work.plan.frontiers))):
            frontier = self.work.plan.frontiers[i]
            step: FusedStep = self.static.steps[frontier.arity]
            self.collect(i, gradients)
            last = [*self.y[i], *(gradients[name][frontier.start : frontier.stop] for name in fields)]
            first = int(self.static.first_edge[i + 1])
            for name in [fields[j] for j in step.destinations if j >= 0]:
                edges = self.edges[name][first : first + len(frontier.children)].unflatten(0, (-1, frontier.arity))
                last += edges.flatten(1, -2).unbind(1)
            results = iter(self._run(True, frontier, buffers, last))
            if -1 in step.destinations:
                gradient = next(results)
                if input_gradient is not None:
                    input_gradient.index_add_(0, frontier.nodes, gradient)
            for call in step.calls:
                field = step.gathered[call]
                x, children = (next(results), None) if field is None else (buffers[fields[field]], frontier.children)
                self.maps.add_gradients(step.products[call], frontier, next(results), x, children)
        self.collect(-1, gradients)

    def _run(self, is_backward: bool, frontier: Frontier, buffers: Buffers, last: Sequence[Tensor]) -> list[Tensor]:
        work, step = self.work, self.static.steps[frontier.arity]
        per_node = [*([] if work.inputs is None else [work.inputs.detach()]), *work.noise.values()]
        operands = _given(self._operands(step.products, frontier))
        states = [buffers[name] for name in work.cell.fields]
        return step.run(is_backward, [*states, frontier.children, frontier.nodes, *per_node, *last, *operands])

    def _operands(self, products: Sequence[str], frontier: Frontier) -> list[Operands]:
        """The operands of the linear maps of a frontier, by call."""
        of_calls = [self.maps.maps_of(product, frontier) for product in products]
        return [(stack.weight, stack.bias, self.work.plan.index(np.array(rows))) for stack, rows in of_calls]


def fault(static: StaticPlan, cell: Cell, run: Callable[[Callable[[Work], Stepper]], Any]) -> str:
    """Return why `FusedStepper` cannot replace `StaticStepper`, as text; empty if it can.

    Compares states and gradients of both on the batch that the plan has. run: computes the states with a stepper.
    """
    if cell.other_parameters():
        return "it has parameters besides those of add_product and add_map"
    parameters = [parameter for parameter in cell.parameters() if parameter.requires_grad]
    results: list[list[Tensor | None]] = []
    try:
        with private_folders(), torch.enable_grad():  # Inductor writes files also when compiled code is first run
            for stepper in (StaticStepper, FusedStepper):
                h = run(partial(stepper, static=static)).of("h", torch.arange(static.nodes, device=static.buffer.device))
                weights = torch.arange(h.numel(), device=h.device).to(h).sin().view_as(h)
                results.append([h.detach(), *torch.autograd.grad(h, parameters, weights, allow_unused=True)])
    except Exception as error:  # of the tracer, Inductor, Triton or a compiler
        return (str(error) or type(error).__name__).strip().splitlines()[0]
    largest = max(float(part.abs().max()) for part in results[0] if part is not None)
    for pair in zip(*results, strict=True):
        plain, fused = (torch.zeros(()) if part is None else part.cpu() for part in pair)
        if not torch.allclose(fused, plain.expand_as(fused), rtol=1e-3, atol=1e-5 * largest):
            return "compiled steps give other gradients"
    return ""
