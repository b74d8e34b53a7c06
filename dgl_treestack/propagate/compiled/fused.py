"""Steps of a static plan from the traces of native code, compiled just in time by Inductor for a GPU.

A frontier is then about eight kernels in place of 57: pointwise code around every linear map, the map, their gradients, and
sums over uses. A linear map is the custom operator `grouped.linear`, which gathers the children's rows itself where its input
is nothing else.
"""

import operator
import warnings
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
OPTIONS: dict[str, Any] = {"deterministic": True, "triton.cudagraphs": False, "assert_indirect_indexing": False}
Operands = tuple[Tensor | None, Tensor | None, Tensor]  # of a linear map: weight, bias, and the maps of the segments
_STEPS: dict[tuple[Any, ...], "FusedStep"] = {}  # of this process, under the cache keys of native code


def inductor(graph: fx.GraphModule, examples: list[Tensor], sizes: Sequence[dict[int, Any]]) -> Callable[..., Any]:
    """Compile a graph. sizes: the dimensions of every example that vary."""
    program = torch.export.export(graph, tuple(examples), dynamic_shapes=tuple(sizes), strict=False)
    return _torch.compile_here(program, OPTIONS)


class FusedStep:
    """A cell's step and its gradient, compiled. Inputs are those of a `TracedStep`, then the rows into which the gradients of
    the children are written, then the operands of the linear maps. Outputs are those that are left.

    gathered: by call of `linear`, the index of the field whose rows of the children are x; None if x is something else.
    """

    def __init__(self, traced: TracedStep, operands: Sequence[Operands], build: Build):
        shapes, arity = list(traced.cell.fields.values()), traced.form.arity
        self.products, self.destinations, self.calls = traced.products, traced.destinations, traced.calls_with_gradient
        self.gathered = list[int | None]()
        self.functions, self.used = list[Callable[..., Any]](), list[list[int]]()
        nodes, rows = Dim("nodes", min=1), Dim("rows", min=1)
        for is_backward in (False, True):
            examples, per_node = traced.examples(backward=is_backward)
            examples = [x.new_empty_strided(x.shape, x.stride()) for x in examples]  # rows of one tensor would be aliases
            split = len(examples)
            for shape in [shapes[i] for i in self.destinations if is_backward and i >= 0]:
                size = arity * torch.Size(shape).numel()
                count = len(examples[len(shapes)]) // arity, shape[-1]
                examples += [examples[0].new_empty_strided(count, (size, 1)) for _ in range(size // shape[-1])]
            sizes = [{0: n * nodes if n > 1 else nodes if n else rows} for n in per_node]
            sizes += [{0: nodes}] * (len(examples) - len(sizes)) + [{}] * len(_given(operands))
            examples += _given(operands)
            graph, used = kernels.trace(partial(self._step, traced, operands, is_backward, split), examples, per_node)
            if not is_backward:
                self.gathered = _gather(graph, used, len(shapes), arity)
            self.functions.append(build(graph, [examples[i] for i in used], [sizes[i] for i in used]))
            self.used.append(used)

    def run(self, is_backward: bool, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Run the step or its gradient."""
        return list(self.functions[is_backward](*(tensors[i] for i in self.used[is_backward])))

    def _step(
        self, traced: TracedStep, operands: Sequence[Operands], is_backward: bool, split: int, tensors: list[Tensor]
    ) -> list[Tensor]:
        end = len(tensors) - len(_given(operands))
        remaining_operands = iter(tensors[end:])
        of_calls = [[None if part is None else next(remaining_operands) for part in of_call] for of_call in operands]

        def linear(x: Tensor, call: int, width: int, transposed: bool) -> Tensor:
            weight, bias, maps = of_calls[call]
            return grouped.linear(x, None, weight, None if transposed else bias, maps, transposed)

        traced.linear = linear
        if not is_backward:
            return traced.forward(tensors[:end])
        results, written, left = traced.backward(tensors[:split]), iter(tensors[split:end]), list[Tensor]()
        for destination, gradient in zip(self.destinations, results, strict=False):
            if destination < 0:  # external input
                left.append(gradient)
                continue
            for row in gradient.flatten(1, -2).unbind(1):
                next(written).copy_(row)
        pairs = iter(results[len(self.destinations) :])
        for call, x, gradient_y in zip(self.calls, pairs, pairs, strict=True):
            left += [gradient_y] if self.gathered[call] is not None else [x, gradient_y]
        return left


def _given(operands: Sequence[Operands]) -> list[Tensor]:
    return [part for of_call in operands for part in of_call if part is not None]


def _shape_alone(x: Tensor, call: int, width: int, transposed: bool) -> Tensor:
    """Stand for a linear map where only the shape of its result matters."""
    return x.new_empty(*x.shape[:-1], width)


def _gather(graph: fx.GraphModule, used: list[int], fields: int, arity: int) -> list[int | None]:
    """Let linear maps gather their input where it is rows of a field, child by child; return the fields, by call."""
    inputs = dict(zip(used, graph.graph.find_nodes(op="placeholder"), strict=True))
    field_of_node, gathered = {node: i for i, node in inputs.items() if i < fields}, list[int | None]()
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.treestack.grouped_linear.default):
        parts: Any = node.args[0].args[0] if node.args[0].target is aten.cat.default else [node.args[0]]
        rows = [part.args for part in parts if part.target is aten.index_select.default]
        # an index is a column of the children's rows: getitem(unbind(view(children)), child)
        columns = [(index.args[0].args[0].args[0], index.args[1]) for _, _, index in rows if index.target is operator.getitem]
        is_gather = columns == [(inputs.get(fields), child) for child in range(arity)] and len(parts) == arity
        field = field_of_node.get(rows[0][0]) if is_gather and len({source for source, _, _ in rows}) == 1 else None
        if field is not None:
            node.args = (inputs[field], inputs[fields], *node.args[2:])
        gathered.append(field)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return gathered


class FusedStepper(StaticStepper):
    """Steps of a static plan, compiled. For cells without parameters besides those of linear maps, and without signals."""

    def __init__(self, work: Work, static: StaticPlan):
        super().__init__(work, static)
        self.y: list[list[Tensor]] = []
        per_node = [*([] if work.inputs is None else [work.inputs.detach()]), *work.noise.values()]
        self.per_row = [values.index_select(0, static.part["nodes"]) for values in per_node]
        build = static.build
        assert build is not None
        for frontier in work.plan.frontiers:
            if frontier.arity not in static.steps:
                form = Form(frontier.arity, work.inputs is not None, tuple(work.noise))
                traced = TracedStep(work.cell, form, work.arena.dtype, work.arena.device, _shape_alone)
                operands = self._operands(traced.products, frontier)
                key = kernels.cache_key(traced, False), build, *(part.shape for part in _given(operands))
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
            frontier, first = self.work.plan.frontiers[i], int(self.static.first_edge[i + 1])
            step: FusedStep = self.static.steps[frontier.arity]
            self.collect(i, gradients)
            last = [*self.y[i], *(gradients[name][frontier.start : frontier.stop] for name in fields)]
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
        step: FusedStep = self.static.steps[frontier.arity]
        states = [buffers[name] for name in self.work.cell.fields]
        per_node = [values[frontier.start : frontier.stop] for values in self.per_row]
        operands = _given(self._operands(step.products, frontier))
        return step.run(is_backward, [*states, frontier.children, *per_node, *last, *operands])

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
        # Inductor writes files also when compiled code is first run
        with private_folders(), warnings.catch_warnings(action="ignore"), torch.enable_grad():
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
