"""Restarts of a net that learn from streams: gradients of the loss of a window's last tokens, through the window.

A learner has two methods. `begin` empties the memories at the start of streams. `learn` processes the new tokens of a chunk,
sets the gradients of their summed loss, per restart, in the net's parameters, and returns that loss (R,), natural logarithm.
"""

import ctypes
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import State
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate.compiled.library import plain
from dgl_treestack.sequence import LARGEST, SequenceCell, StackRNN, draw_summed

CLIP = 15.0  # bound of all error signals (Joulin & Mikolov 2015, section 5)
WINDOW = 50  # tokens
SLOTS = 4  # windows that the buffers of `StackLearner` have room for, so that they are moved seldom
SOURCE = Path(__file__).parent / "csrc" / "learner.cpp"


@dataclass(frozen=True)
class Chunk:
    """T tokens of R streams: inputs and targets (T, R), and the weights of the targets in the loss (T, R), 1 or 0."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor


class Net(nn.Module):
    """A sequence cell with the layer that predicts the next symbol, for R nets: y = softmax(V h)."""

    def __init__(self, cell: SequenceCell):
        super().__init__()
        self.cell = cell
        self.V = nn.Parameter(torch.empty(*cell.prefix, cell.inputs, cell.hidden))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise the cell by its own rule, V by the rule of a Stack RNN."""
        self.cell.reset_parameters(generator)
        draw_summed(self.V, generator)

    def read(self, h: Tensor) -> Tensor:
        """Return logits (..., R, B, symbols) of states (..., R, B, H)."""
        return h @ self.V.mT


class AutogradLearner:
    """A learner for any cell: for every chunk the window is recomputed, from the state before it, and differentiated."""

    def __init__(self, net: Net, window: int = WINDOW):
        self.net, self.window = net, window
        self.begin()

    def begin(self) -> None:
        """Empty the memories and the window."""
        self.state: State = self.net.cell.start(1)
        self.past: deque[Tensor] = deque()  # inputs of the chunks in the window

    def learn(self, chunk: Chunk) -> Tensor:
        """Set the gradients of a chunk; return its loss (R,)."""
        cell, new = self.net.cell, len(chunk.inputs)
        self.past.append(chunk.inputs)
        while sum(map(len, self.past)) > max(self.window, new):
            with torch.no_grad():
                for drive in cell.drive(self.past.popleft().unsqueeze(-1)):
                    self.state, _ = cell.step(drive, self.state)
        inputs = torch.cat(list(self.past))
        h, _ = cell.unroll(inputs.unsqueeze(-1), self.state, CLIP)
        losses = functional.cross_entropy(self.net.read(h[-new:]).flatten(0, 2), chunk.targets.flatten(), reduction="none")
        self.net.zero_grad(set_to_none=True)
        total: Tensor = (losses.view_as(chunk.weights) * chunk.weights).sum(0)
        total.sum().backward()
        return total.detach()


class Sizes(ctypes.Structure):
    """`Sizes` of csrc/learner.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("restarts", "hidden", "symbols", "stacks", "capacity", "depth", "actions")),
        *((name, ctypes.c_double) for name in ("beta", "clip", "largest", "empty")),
    )


class StackLearner:
    """A learner for restarts of a Stack RNN, one stream each, in native code that computes only new tokens forward.

    Activations of the window are stored, so that q new tokens cost q steps forward and `window` steps backward. Stored
    activations were computed with slightly older weights, as in the authors' program; if all tokens of the window are new, the
    gradients equal those of autograd. Only for nets whose recurrence goes through the stacks alone, with cells of width 1; two
    actions are computed as a number and its complement.

    A stack is stored in a padded buffer (slots, restarts, stacks, capacity + 2): index 0 has the pushed value, the last index
    the content of an empty cell. Slot `start + length` of `rows` has the stacks before the next token; `length` is the number
    of tokens in the window, `seen` that of all since the memories were emptied.
    """

    def __init__(self, net: Net, window: int = WINDOW):
        cell = net.cell
        assert self.supports(cell) and cell.restarts, "train other cells with AutogradLearner"
        self.net, self.window, self.cell = net, window, cell
        self.native = getattr(plain(SOURCE), "learn_double" if cell.U.dtype == torch.float64 else "learn_float")
        slots, actions = SLOTS * window + 1, len(cell.actions)
        shapes = (cell.stacks, cell.capacity + 2), (cell.hidden,), (cell.stacks, actions), (cell.stacks,)
        self.buffers = [cell.U.new_empty(slots, cell.restarts, *shape) for shape in shapes]  # rows, h, shares, values
        self.inputs = torch.zeros(slots, cell.restarts, dtype=torch.int64)
        sizes = cell.restarts, cell.hidden, cell.inputs, cell.stacks, cell.capacity, cell.depth, actions
        self.sizes = Sizes(*sizes, cell.beta, CLIP, LARGEST, cell.empty["stack"])
        self.parameters = [cell.U, cell.A, cell.D, cell.P, net.V]
        self.gradients = [torch.empty_like(parameter) for parameter in self.parameters]
        self.begin()

    @staticmethod
    def supports(cell: SequenceCell) -> TypeGuard[StackRNN]:
        """Return whether the gradients of a cell's nets are computed here."""
        is_simple = isinstance(cell, StackRNN) and cell.recurrence == "stacks" and cell.width == 1 and cell.capacity > 0
        return is_simple and cell.restarts is not None

    def begin(self) -> None:
        """Empty the stacks and the window."""
        self.start = self.length = self.seen = 0
        self.buffers[0][0].fill_(self.cell.empty["stack"])

    def learn(self, chunk: Chunk) -> Tensor:
        """Set the gradients of a chunk; return its loss (R,)."""
        new = len(chunk.inputs)
        if new > self.window:
            raise ConfigurationError(f"{new} new tokens do not fit into a window of {self.window}.")
        surplus = max(0, self.length + new - self.window)  # the oldest tokens are dropped, so that the new ones end the window
        self.start, self.length = self.start + surplus, self.length - surplus
        if self.start + self.length + new >= len(self.inputs):
            for buffer in (*self.buffers, self.inputs):  # a copy, since the two parts may overlap
                buffer[: self.length + 1] = buffer[self.start : self.start + self.length + 1].clone()
            self.start = 0
        end = self.start + self.length
        self.inputs[end : end + new] = chunk.inputs
        losses, weights = self.cell.U.new_empty(len(self.cell.U)), chunk.weights.to(self.cell.U)
        self.sizes.beta, self.sizes.clip = self.cell.beta, CLIP
        self.native(
            ctypes.byref(self.sizes),
            _addresses(self.parameters),
            _addresses(self.gradients),
            _addresses([buffer[self.start] for buffer in self.buffers]),
            *(ctypes.c_void_p(tensor.data_ptr()) for tensor in (self.inputs[self.start], chunk.targets, weights)),
            *map(ctypes.c_int64, (self.length + new, new, self.seen - self.length)),
            ctypes.c_void_p(losses.data_ptr()),
        )
        self.length, self.seen = self.length + new, self.seen + new
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
        return losses


def _addresses(tensors: Sequence[Tensor]) -> "ctypes.Array[ctypes.c_void_p]":
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
