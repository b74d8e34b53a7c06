"""The compiled `Stepper`. The loops over frontiers are in csrc/sweep.cpp; this module assembles their inputs."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dgl_treestack.cells import Cell, OperatorLinear
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate.compiled.library import native, threads
from dgl_treestack.propagate.compiled.traced import Form, TracedStep
from dgl_treestack.propagate.levels.sweep import Buffers, Work

Build = Callable[[TracedStep, bool], Any]  # (step, whether to build its gradient) -> a `Graph` of the native library


class _Steps:
    """Native steps of a cell, valid as long as its products have these tensors."""

    def __init__(self, cell: Cell, tensors: list[Tensor]):
        self.ids = [id(tensor) for tensor in tensors]
        self.operator_index = {operator.name: i for i, operator in enumerate(cell.operators)}
        self.steps: dict[tuple, tuple[TracedStep, Any]] = {}
        self.with_backward: set[tuple] = set()
        index = {None: -1} | {id(tensor): i for i, tensor in enumerate(tensors)}
        self.stacks: dict[tuple[str, str], Any] = {}  # by product and suffix of its parameters
        self.products: list[tuple[OperatorLinear, list[str]]] = []  # of every stack, with the keys of its rows
        for product, linear in cell.products.items():
            places = [linear.places[operator.name] for operator in cell.operators]
            for suffix, keys in linear.stacks.items():
                parameters = [index[tensor if tensor is None else id(tensor)] for tensor in linear.stack(suffix)]
                rows = [row if suffix_of_row == suffix else -1 for suffix_of_row, row in places]
                self.stacks[product, suffix] = native().Stack(*parameters, rows, linear.share == "all")
                self.products.append((linear, keys))


_steps_of_cell: "WeakKeyDictionary[Cell, _Steps]" = WeakKeyDictionary()


class CompiledStepper:
    """A `Stepper` without signals. It stores no buffers: outputs of the autograd function would keep its graph alive."""

    def __init__(self, work: Work, build: Build):
        self.work, self.build = work, build
        self.per_node = [*([] if work.inputs is None else [work.inputs]), *work.noise.values()]
        cell, plan = work.cell, work.plan
        if cell.other_parameters():
            raise ConfigurationError(
                f"{type(cell).__name__} has parameters besides those of add_product and add_map: native code computes no "
                f"gradients of them. Use the engine 'levels'."
            )
        self.parameters = tensors = [tensor for linear in cell.products.values() for tensor in linear.tensors()]
        steps = _steps_of_cell.get(cell)
        # Weights that were tied after the first use lost their gradients with the old indices, and untied ones kept
        # wrong ones.
        if steps is None or steps.ids != [id(tensor) for tensor in tensors]:
            steps = _steps_of_cell[cell] = _Steps(cell, tensors)
        self.steps = steps
        self.keys = {
            arity: (Form(arity, work.inputs is not None, tuple(work.noise)), work.arena.dtype, work.arena.device, build)
            for arity in dict.fromkeys(frontier.arity for frontier in plan.frontiers)
        }
        library = native()  # which registers the custom operator that a traced step calls
        for key in self.keys.values():
            if key not in steps.steps:
                with torch.inference_mode(False):  # the cached step is used in training too
                    traced, order = TracedStep(cell, *key[:3]), [*steps.stacks]
                    suffix = {name: str(key[0].arity) if linear.by_arity else "" for name, linear in cell.products.items()}
                    calls = [order.index((product, suffix[product])) for product in traced.products]
                    widths = [torch.Size(shape).numel() for shape in traced.y_shapes]
                    steps.steps[key] = traced, library.Step(calls, widths, build(traced, False))
        frontiers = [
            library.Frontier(
                *(frontier.arity, frontier.start, frontier.stop - frontier.start, frontier.children, frontier.nodes),
                *([steps.operator_index[name] for name in frontier.operators], frontier.sizes),
            )
            for frontier in plan.frontiers
        ]
        native_steps = {arity: steps.steps[key][1] for arity, key in self.keys.items()}
        limits = work.arena.options.deferred_weight, work.arena.options.deferred_rows
        self.sweep = library.Sweep(native_steps, [*steps.stacks.values()], frontiers, tensors, *limits, threads())

    def forward(self, buffers: Buffers, recording: bool) -> None:
        arena, mark = self.work.arena, self.work.arena.mark()
        block = arena.empty(self.sweep.numbers(recording))
        self.sweep.forward(list(buffers.values()), self.per_node, block, recording)
        if not recording:
            arena.reset_to(mark)

    def backward(self, buffers: Buffers, gradients: Buffers, input_gradient: Tensor | None) -> None:
        for key in self.keys.values():
            if key not in self.steps.with_backward:
                traced, step = self.steps.steps[key]
                step.set_backward(self.build(traced, True), traced.destinations, traced.calls_with_gradient)
                self.steps.with_backward.add(key)
        block = self.work.arena.empty(self.sweep.numbers(False))
        self.sweep.backward(list(buffers.values()), self.per_node, list(gradients.values()), input_gradient, block)

    def take_gradients(self) -> list[Tensor | None]:
        gradients, used = self.sweep.take_gradients()
        for (linear, keys), rows in zip(self.steps.products, used, strict=True):
            linear.used.update([keys[row] for row in rows])
        return gradients
