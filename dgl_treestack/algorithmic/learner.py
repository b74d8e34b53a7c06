"""Restarts of a net that learn from streams: gradients of the loss of a window's last tokens, through the window.

A learner has two methods. `begin` empties the memories at the start of streams. `learn` processes the new tokens of a chunk,
sets the gradients of their summed loss, per restart, in the net's parameters, and returns that loss (R,), natural logarithm.
"""

from collections import deque
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import State
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence import LARGEST, SequenceCell, StackRNN, draw_summed

CLIP = 15.0  # bound of all error signals (Joulin & Mikolov 2015, section 5)
WINDOW = 50  # tokens


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


class StackLearner:
    """A learner for restarts of a Stack RNN, one stream each, that computes only new tokens forward: about twice as fast.

    Activations of the window are stored, so that q new tokens cost q steps forward and `window` steps backward. Stored
    activations were computed with slightly older weights, as in the authors' program; if all tokens of the window are new, the
    gradients equal those of autograd. Only for nets whose recurrence goes through the stacks alone, with cells of width 1; two
    actions are computed as a number and its complement.

    A stack is stored in a padded buffer (restarts, stacks, capacity + 2): index 0 has the pushed value, the last index the
    content of an empty cell. The stack after a push is then buffer[: capacity], and after a pop buffer[2 :].

    Buffers have window + 1 slots. `length` is the number of tokens in the window; slot `length` of `rows` has the stacks
    before the next token.
    """

    def __init__(self, net: Net, window: int = WINDOW):
        cell = net.cell
        assert self.supports(cell) and cell.restarts, "train other cells with AutogradLearner"
        self.net, self.window, self.cell = net, window, cell
        shape = (window + 1, cell.restarts, cell.stacks)
        self.rows = cell.U.new_empty((*shape, cell.capacity + 2))
        self.h = cell.U.new_empty((window + 1, cell.restarts, 1, cell.hidden))
        self.shares = cell.U.new_empty((*shape, len(cell.actions)))
        self.values = cell.U.new_empty(shape)
        self.inputs = torch.zeros(window + 1, cell.restarts, dtype=torch.int64)
        self.begin()

    @staticmethod
    def supports(cell: SequenceCell) -> TypeGuard[StackRNN]:
        """Return whether the gradients of a cell's nets are computed here."""
        is_simple = isinstance(cell, StackRNN) and cell.recurrence == "stacks" and cell.width == 1 and cell.capacity > 0
        return is_simple and cell.restarts is not None

    def begin(self) -> None:
        """Empty the stacks and the window."""
        self.length = 0
        self.rows.fill_(self.cell.empty["stack"])

    @torch.no_grad()
    def learn(self, chunk: Chunk) -> Tensor:
        """Set the gradients of a chunk; return its loss (R,)."""
        cell, new, two_actions = self.cell, len(chunk.inputs), len(self.cell.actions) == 2
        if new > self.window:
            raise ConfigurationError(f"{new} new tokens do not fit into a window of {self.window}.")
        surplus = self.length + new - self.window
        if surplus > 0:  # drop the oldest tokens, so that the new ones end the window
            self.length -= surplus
            for buffer in (self.rows, self.h, self.shares, self.values, self.inputs):
                # a copy, since the two parts overlap
                buffer[: self.length + 1] = buffer[surplus : surplus + self.length + 1].clone()
        action = cell.A.unflatten(1, (cell.stacks, -1))
        logits = action[:, :, :1] - action[:, :, 1:] if two_actions else action
        write = torch.cat([cell.D, logits.flatten(1, 2)], dim=1).mT.contiguous()  # (R, H, columns): values, then logits
        self._forward(chunk.inputs, write)
        h = self.h[self.length - new : self.length]
        logits = self.net.read(h).squeeze(2)
        losses = functional.cross_entropy(logits.flatten(0, 1), chunk.targets.flatten(), reduction="none")
        errors = torch.softmax(logits, -1) - functional.one_hot(chunk.targets, logits.shape[-1])
        errors = errors * chunk.weights.unsqueeze(-1)
        self.net.V.grad = errors.movedim(0, 2) @ h.squeeze(2).movedim(0, 1)
        from_write, from_h = self._backward(errors.unsqueeze(2) @ self.net.V, write)
        tops = self.rows[: self.length, :, :, 1 : 1 + cell.depth].flatten(2)
        symbols = functional.one_hot(self.inputs[: self.length], cell.inputs).to(from_h)
        cell.P.grad = from_h.movedim(0, 2) @ tops.movedim(0, 1)
        cell.U.grad = from_h.movedim(0, 2) @ symbols.movedim(0, 1)
        written = from_write.movedim(0, 2) @ self.h[: self.length].squeeze(2).movedim(0, 1)
        cell.D.grad, logits = written[:, : cell.stacks].contiguous(), written[:, cell.stacks :]
        cell.A.grad = torch.stack([logits, -logits], dim=2).flatten(1, 2) if two_actions else logits.contiguous()
        return (losses.view_as(chunk.weights) * chunk.weights).sum(0)

    def _forward(self, inputs: Tensor, write: Tensor) -> None:
        """Compute the new tokens (T, R) and append their activations to the window. write: the weights (R, H, columns) that map
        h to the values and the logits of the actions, for two actions the difference of their logits."""
        cell, size, depth, stacks = self.cell, self.cell.capacity, self.cell.depth, self.cell.stacks
        read = cell.P.mT.contiguous()
        self.inputs[self.length : self.length + len(inputs)] = inputs
        for drive in cell.drive(inputs.unsqueeze(-1)):
            t, rows = self.length, self.rows[self.length]
            top = rows[:, :, 1 : 1 + depth].flatten(1).unsqueeze(1)
            h = torch.baddbmm(drive, top, read, out=self.h[t]).clamp_(-LARGEST, LARGEST).sigmoid_()
            products = torch.bmm(h, write).squeeze(1)
            rows[:, :, 0] = torch.sigmoid(products[:, :stacks].clamp(-LARGEST, LARGEST), out=self.values[t])
            logits = cell.beta * products[:, stacks:]
            if len(cell.actions) == 2:
                push = torch.sigmoid(logits).unsqueeze(2)
                shares = torch.cat([push, 1 - push], dim=2)
            else:
                shares = torch.softmax(logits.unflatten(1, (stacks, -1)), dim=2)
            self.shares[t] = shares
            moved = self.rows[t + 1][:, :, 1 : size + 1]
            torch.lerp(rows[:, :, 2:], rows[:, :, :size], shares[:, :, :1], out=moved)
            if shares.shape[2] > 2:  # lerp gave the no-op's share to the pop
                moved.add_(shares[:, :, 2:] * (rows[:, :, 1 : size + 1] - rows[:, :, 2:]))
            self.length = t + 1

    def _backward(self, from_output: Tensor, write: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the products h write (T, R, columns) and of the input of h (T, R, H), for all T tokens of the
        window. from_output: the gradients (new, R, 1, H) of h from the loss of the new tokens."""
        cell, steps, size, depth = self.cell, self.length, self.cell.capacity, self.cell.depth
        stacks, first_new, two_actions = cell.stacks, steps - len(from_output), len(cell.actions) == 2
        restarts, read = len(write), write.mT.contiguous()
        after = self.rows.new_zeros(restarts, stacks, size + 2)  # gradients of the stacks after a step, padded with zeros
        before = torch.zeros_like(after)
        from_write = self.rows.new_empty(steps, restarts, 1, read.shape[1])
        from_h = self.rows.new_empty(steps, restarts, 1, cell.hidden)
        slopes_of_h = self.h[:steps] * (1 - self.h[:steps])
        slopes_of_values = self.values[:steps] * (1 - self.values[:steps])
        slopes_of_push = cell.beta * self.shares[:steps, :, :, 0] * self.shares[:steps, :, :, 1]  # for two actions
        for t in range(steps - 1, -1, -1):
            inner, rows, share, products = after[:, :, 1 : size + 1], self.rows[t], self.shares[t], from_write[t].squeeze(1)
            pushed, popped = rows[:, :, :size], rows[:, :, 2:]
            products[:, :stacks] = (share[:, :, 0] * inner[:, :, 0] * slopes_of_values[t]).clamp_(-CLIP, CLIP)
            if two_actions:
                from_push = torch.linalg.vecdot(inner, pushed - popped).clamp_(-CLIP, CLIP)
                products[:, stacks:] = (from_push * slopes_of_push[t]).clamp_(-CLIP, CLIP)
            else:
                stacks_after = (pushed, popped, rows[:, :, 1 : size + 1])
                from_share = torch.stack([torch.linalg.vecdot(inner, moved) for moved in stacks_after], dim=2)
                from_share.clamp_(-CLIP, CLIP)
                logits = cell.beta * share * (from_share - (share * from_share).sum(2, keepdim=True))
                products[:, stacks:] = logits.clamp_(-CLIP, CLIP).flatten(1)
            h = torch.bmm(from_write[t], read, out=from_h[t])
            if t >= first_new:
                h += from_output[t - first_new]
            h.clamp_(-CLIP, CLIP).mul_(slopes_of_h[t])
            inside = before[:, :, 1 : size + 1]
            torch.lerp(after[:, :, :size], after[:, :, 2:], share[:, :, :1], out=inside)
            if not two_actions:
                inside.add_(share[:, :, 2:] * (inner - after[:, :, :size]))
            inside[:, :, :depth] += torch.bmm(h, cell.P).view(restarts, stacks, depth)
            inside.clamp_(-CLIP, CLIP)
            after, before = before, after
        return from_write.squeeze(2), from_h.squeeze(2)
