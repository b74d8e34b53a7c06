"""Operations of a static plan's frontiers, as custom operators: kernels in Triton on a GPU, else torch's own operations.

A kernel gathers the children's rows itself and needs no copy of the weights of a frontier's operators. Kernels need Triton, and
a C compiler for what starts them.
"""

import logging
import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
Given = Tensor | None


@torch.library.custom_op("treestack::grouped_linear", mutates_args=())
def linear(x: Tensor, children: Given, weight: Given, bias: Given, maps: Tensor, transposed: bool) -> Tensor:
    """Apply the maps of segments of equal length: (n, ..., in) -> (n, ..., out), or transposed, from out to in.

    children: (n * A,), if x are rows (R, H) of which every node takes those of its children, side by side.
    weight: (K, out, in). bias: (K, out). maps: a row of both for every segment.
    """
    y = _result(x, children, weight, bias, maps, transposed)
    rows = y.flatten(0, -2), x.flatten(0, -2).contiguous()
    _operations(x, weight, maps).linear(*rows, children, weight, bias, maps, transposed)
    return y


@linear.register_fake
def _result(x: Tensor, children: Given, weight: Given, bias: Given, maps: Tensor, transposed: bool) -> Tensor:
    outputs, inputs = (bias.shape[1], 0) if weight is None and bias is not None else weight.shape[1:]  # type: ignore[union-attr]
    shape = x.shape[:-1] if children is None else (children.shape[0] * x.shape[1] // inputs,)
    return x.new_empty(*shape, inputs if transposed else outputs)


@torch.library.custom_op("treestack::grouped_gradients", mutates_args=("of_weight", "of_bias"))
def add_gradients(gradient_y: Tensor, x: Tensor, children: Given, maps: Tensor, of_weight: Given, of_bias: Given) -> None:
    """Add the gradients of weight (K, out, in) and bias (K, out) of `linear`, from that of y (n, ..., out)."""
    rows = gradient_y.flatten(0, -2).contiguous(), x.flatten(0, -2).contiguous()
    _operations(x, of_weight, maps).add_gradients(*rows, children, maps, of_weight, of_bias)


@torch.library.custom_op("treestack::add_sums", mutates_args=("rows",))
def add_sums(rows: Tensor, values: Tensor, index: Given, offsets: Tensor) -> None:
    """Add to row r (n, W) the values from offsets[r] to offsets[r + 1], or those whose indices are there."""
    _operations(values).add_sums(rows, values, index, offsets)


class Plain:
    """The operations of `triton_kernels` by operations of torch."""

    @staticmethod
    def linear(y: Tensor, x: Tensor, children: Given, weight: Given, bias: Given, maps: Tensor, transposed: bool) -> None:
        biases = None if bias is None else bias.index_select(0, maps).unsqueeze(1)
        segments = y.view(len(maps), -1, y.shape[1])
        if weight is None:
            segments.copy_(biases)  # type: ignore[arg-type]
            return
        weights = weight.index_select(0, maps)
        factors = _segments(x, children, segments), weights if transposed else weights.transpose(1, 2)
        torch.bmm(*factors, out=segments) if biases is None else torch.baddbmm(biases, *factors, out=segments)

    @staticmethod
    def add_gradients(gradient_y: Tensor, x: Tensor, children: Given, maps: Tensor, of_weight: Given, of_bias: Given) -> None:
        segments = gradient_y.view(len(maps), -1, gradient_y.shape[1])
        if of_weight is not None:
            of_weight.index_add_(0, maps, torch.bmm(segments.transpose(1, 2), _segments(x, children, segments)))
        if of_bias is not None:
            of_bias.index_add_(0, maps, segments.sum(1))

    @staticmethod
    def add_sums(rows: Tensor, values: Tensor, index: Given, offsets: Tensor) -> None:
        values = values if index is None else values.index_select(0, index)
        rows.add_(torch.segment_reduce(values, "sum", offsets=offsets, axis=0, unsafe=True, initial=0))


def _segments(x: Tensor, children: Given, like: Tensor) -> Tensor:
    rows = x if children is None else x.index_select(0, children)
    return rows.view(*like.shape[:2], -1)


def _operations(x: Tensor, weight: Given = None, maps: Given = None) -> Any:
    """The kernels, or `Plain` where there are none, for a bias alone, and for one map, which is a plain product."""
    is_plain = maps is not None and (weight is None or len(maps) == 1)
    return (not is_plain and kernels(x.device, x.dtype)) or Plain


@cache
def kernels(device: torch.device, dtype: torch.dtype) -> Any:
    """Return the module of kernels, None if they do not run on a device. On a CPU they run in tests only, interpreted."""
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    try:
        from dgl_treestack.propagate.levels import triton_kernels

        for values in zip(_example(triton_kernels, device, dtype), _example(Plain, device, dtype), strict=True):
            torch.testing.assert_close(*values, rtol=1e-4, atol=1e-4)
    except Exception as error:  # of Triton's compiler, a C compiler, the driver
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        logger.warning("no Triton kernels on %s: %s; linear maps are batched products there", device, reason)
        return None
    return triton_kernels


def _example(operations: Any, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """The results of all operations for some numbers."""
    numbers = torch.arange(2000, device=device).to(dtype).sin()
    x, weight, y = numbers[:1360].view(68, 20), numbers[:1800].view(3, 15, 40), numbers.new_empty(34, 15)
    children, maps = torch.arange(68, device=device).flip(0), torch.tensor([2, 0], device=device)
    operations.linear(y, x, children, weight, weight[:, :, 0].contiguous(), maps, False)
    gradients = torch.zeros_like(weight), weight.new_zeros(3, 15)
    operations.add_gradients(y, x, children, maps, *gradients)
    gradient_x, sums = x.new_empty(34, 40), x.new_zeros(3, 20)
    operations.linear(gradient_x, y, None, weight, None, maps, True)
    operations.add_sums(sums, x, children, torch.tensor([0, 2, 2, 60], device=device))
    return [y, *gradients, gradient_x, sums]
