"""The operations of `grouped` as kernels in Triton. Every number is computed by one program, in a fixed order."""

# mypy: allow-untyped-defs

import torch
import triton
import triton.language as tl
from torch import Tensor

USES = 32  # that are summed at once


@triton.jit
def _linear(
    x, children, weight, bias, maps, y, length, x_stride,
    arity: tl.constexpr, width: tl.constexpr, columns: tl.constexpr, column_stride: tl.constexpr, input_stride: tl.constexpr,
    has_children: tl.constexpr, has_bias: tl.constexpr, rows_at_once: tl.constexpr, columns_at_once: tl.constexpr,
    inputs_at_once: tl.constexpr,
):  # fmt: skip
    """A program computes some rows of a segment and some columns."""
    tiles = tl.cdiv(length, rows_at_once)
    segment = tl.program_id(0) // tiles
    place = (tl.program_id(0) % tiles) * rows_at_once + tl.arange(0, rows_at_once)
    row = segment * length + place
    column = tl.program_id(1) * columns_at_once + tl.arange(0, columns_at_once)
    is_row = place < length
    is_column = column < columns
    map_index = tl.load(maps + segment)
    own_weight = weight + map_index * (columns * arity * width)
    total = tl.zeros((rows_at_once, columns_at_once), dtype=y.dtype.element_ty)
    for child in tl.static_range(arity):
        source = tl.load(children + row * arity + child, mask=is_row, other=0) if has_children else row
        for start in range(0, width, inputs_at_once):
            k = start + tl.arange(0, inputs_at_once)
            part = tl.load(x + source[:, None] * x_stride + k[None, :], mask=is_row[:, None] & (k < width)[None, :], other=0.0)
            factors = tl.load(
                own_weight + column[None, :] * column_stride + (child * width + k)[:, None] * input_stride,
                mask=(k < width)[:, None] & is_column[None, :],
                other=0.0,
            )
            total += tl.dot(part, factors, input_precision="ieee", out_dtype=y.dtype.element_ty)
    if has_bias:
        total += tl.load(bias + map_index * columns + column, mask=is_column, other=0.0)[None, :]
    tl.store(y + row[:, None] * columns + column[None, :], total, mask=is_row[:, None] & is_column[None, :])


@triton.jit
def _add_gradients(
    gradient_y, x, children, maps, weight_gradient, bias_gradient, length, x_stride,
    arity: tl.constexpr, width: tl.constexpr, columns: tl.constexpr, has_children: tl.constexpr, has_bias: tl.constexpr,
    columns_at_once: tl.constexpr, inputs_at_once: tl.constexpr, rows_at_once: tl.constexpr,
):  # fmt: skip
    """A program computes a part of the gradient of a map's weight, over all rows of its segment."""
    segment = tl.program_id(0)
    blocks = tl.cdiv(width, inputs_at_once)
    child = tl.program_id(2) // blocks
    column = tl.program_id(1) * columns_at_once + tl.arange(0, columns_at_once)
    k = (tl.program_id(2) % blocks) * inputs_at_once + tl.arange(0, inputs_at_once)
    is_column = column < columns
    is_input = k < width
    total = tl.zeros((columns_at_once, inputs_at_once), dtype=weight_gradient.dtype.element_ty)
    total_bias = tl.zeros((columns_at_once,), dtype=weight_gradient.dtype.element_ty)
    for start in range(0, length, rows_at_once):
        offset = start + tl.arange(0, rows_at_once)
        is_row = offset < length
        row = segment * length + offset
        source = tl.load(children + row * arity + child, mask=is_row, other=0) if has_children else row
        gradient = tl.load(
            gradient_y + row[:, None] * columns + column[None, :], mask=is_row[:, None] & is_column[None, :], other=0.0
        )
        part = tl.load(x + source[:, None] * x_stride + k[None, :], mask=is_row[:, None] & is_input[None, :], other=0.0)
        total += tl.dot(tl.trans(gradient), part, input_precision="ieee", out_dtype=weight_gradient.dtype.element_ty)
        if has_bias:
            total_bias += tl.sum(gradient, axis=0)
    map_index = tl.load(maps + segment)
    inputs = arity * width
    place = weight_gradient + (map_index * columns + column[:, None]) * inputs + (child * width + k)[None, :]
    is_place = is_column[:, None] & is_input[None, :]
    tl.store(place, tl.load(place, mask=is_place) + total, mask=is_place)
    if has_bias and tl.program_id(2) == 0:
        place_in_bias = bias_gradient + map_index * columns + column
        tl.store(place_in_bias, tl.load(place_in_bias, mask=is_column) + total_bias, mask=is_column)


@triton.jit
def _add_sums(
    rows, values, index, offsets, width,
    has_index: tl.constexpr, uses_at_once: tl.constexpr, columns_at_once: tl.constexpr,
):  # fmt: skip
    """A program computes some columns of a row."""
    row = tl.program_id(0)
    column = tl.program_id(1) * columns_at_once + tl.arange(0, columns_at_once)
    is_column = column < width
    first = tl.load(offsets + row).to(tl.int32)
    last = tl.load(offsets + row + 1).to(tl.int32)
    total = tl.zeros((columns_at_once,), dtype=rows.dtype.element_ty)
    for start in range(first, last, uses_at_once):
        use = start + tl.arange(0, uses_at_once)
        is_use = use < last
        source = tl.load(index + use, mask=is_use, other=0) if has_index else use
        part = tl.load(values + source[:, None] * width + column[None, :], mask=is_use[:, None] & is_column[None, :], other=0.0)
        total += tl.sum(part, axis=0)
    place = rows + row * width + column
    tl.store(place, tl.load(place, mask=is_column) + total, mask=is_column)


def linear(
    y: Tensor, x: Tensor, children: Tensor | None, weight: Tensor, bias: Tensor | None, maps: Tensor, transposed: bool
) -> None:
    """Write y (n, out) of `grouped.linear`, from x (n, in) or rows (R, H) of the children."""
    length, columns, inputs = len(y) // len(maps), y.shape[1], weight.shape[2]
    rows_at_once = 16 if length <= 16 else 32 if length <= 64 else 64
    grid = len(maps) * triton.cdiv(length, rows_at_once), triton.cdiv(columns, 32)
    with torch.cuda.device_of(x):
        _linear[grid](
            *(x, x if children is None else children, weight, weight if bias is None else bias, maps, y, length, x.stride(0)),
            *(
                1 if children is None else inputs // x.shape[1],
                x.shape[1],
                columns,
                *((1, inputs) if transposed else (inputs, 1)),
            ),
            *(children is not None, bias is not None, rows_at_once, 32, _block(x.shape[1])),
        )


def add_gradients(
    gradient_y: Tensor, x: Tensor, children: Tensor | None, maps: Tensor, of_weight: Tensor, of_bias: Tensor | None
) -> None:
    """See `grouped.add_gradients`."""
    length, columns, inputs, width = len(gradient_y) // len(maps), gradient_y.shape[1], of_weight.shape[2], x.shape[1]
    arity, block = 1 if children is None else inputs // width, _block(width)
    grid = len(maps), triton.cdiv(columns, 32), arity * triton.cdiv(width, block)
    with torch.cuda.device_of(x):
        _add_gradients[grid](
            *(gradient_y, x, x if children is None else children, maps, of_weight),
            *(of_weight if of_bias is None else of_bias, length, x.stride(0), arity, width, columns),
            *(children is not None, of_bias is not None, 32, block, 16 if length <= 16 else 32),
        )


def add_sums(rows: Tensor, values: Tensor, index: Tensor | None, offsets: Tensor) -> None:
    """See `grouped.add_sums`."""
    width = rows.shape[1]
    columns_at_once = min(triton.next_power_of_2(width), 128)
    with torch.cuda.device_of(rows):
        _add_sums[len(rows), triton.cdiv(width, columns_at_once)](
            *(rows, values, values if index is None else index, offsets, width, index is not None, USES, columns_at_once)
        )


def _block(width: int) -> int:
    return 16 if width <= 16 else 32
