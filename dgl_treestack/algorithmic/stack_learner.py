"""The Stack RNN's window, forward and backward by hand: what autograd does, some three times as fast.

Activations of the window are kept, so that q new tokens cost q steps forward and `window` steps back. They were made with the
weights of their time, a little old, as in the authors' program; with nothing but new tokens in the window the gradients are
autograd's. Nets without R, cells of width 1; two actions are computed as one number and its complement.

A stack lies in a padded buffer (R, M, C + 2): place 0 has the value that is pushed, the last one what an empty cell holds. Then
the stack after a push is buffer[: C], and after a pop buffer[2 :].
"""

import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack.algorithmic.learner import CLIP, WINDOW, Learner, Net
from dgl_treestack.algorithmic.stream import Chunk
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence import StackRNN


class StackLearner(Learner):
    """For restarts of a Stack RNN, one stream each. Raises ConfigurationError for a net that it has no backward for."""

    def __init__(self, net: Net, window: int = WINDOW):
        super().__init__(net, window)
        cell = net.cell
        if not isinstance(cell, StackRNN) or cell.recurrence != "stacks" or cell.width != 1 or not cell.capacity:
            raise ConfigurationError(
                "By hand only Stack RNNs with recurrence through stacks, width 1 and a capacity are trained."
            )
        if cell.restarts is None:
            raise ConfigurationError("Nets are trained as restarts; give at least one.")
        self.cell: StackRNN = cell
        shape = (window + 1, cell.restarts, cell.stacks)
        like = cell.U
        self.rows = like.new_empty((*shape, cell.capacity + 2))
        self.h = like.new_empty((window + 1, cell.restarts, 1, cell.hidden))
        self.gates = like.new_empty((*shape, len(cell.actions)))
        self.values = like.new_empty(shape)
        self.inputs = torch.zeros(window + 1, cell.restarts, dtype=torch.int64)
        self.begin()

    def begin(self) -> None:
        """Slot `at` of the buffers has the stacks that the next token will see."""
        self.at = 0
        self.rows.fill_(self.cell.empty["stack"])

    @torch.no_grad()
    def learn(self, chunk: Chunk) -> Tensor:
        new = len(chunk.inputs)
        if new > self.window:
            raise ConfigurationError(f"{new} new tokens do not fit into a window of {self.window}.")
        self._make_room(new)
        self._forward(chunk.inputs)
        h = self.h[self.at - new : self.at]
        logits = self.net.read(h).squeeze(2)
        chances = torch.softmax(logits, -1)
        losses = functional.cross_entropy(logits.flatten(0, 1), chunk.targets.flatten(), reduction="none").view_as(
            chunk.weights
        )
        errors = (chances - functional.one_hot(chunk.targets, chances.shape[-1])) * chunk.weights.unsqueeze(-1)
        self.net.V.grad = errors.movedim(0, 2) @ h.squeeze(2).movedim(0, 1)
        self._backward((errors.unsqueeze(2) @ self.net.V), new)
        return (losses * chunk.weights).sum(0)

    def _make_room(self, new: int) -> None:
        """Move what is kept of the past to the start of the buffers, so that the new tokens fill the window's end."""
        surplus = self.at + new - self.window
        if surplus > 0:
            kept = self.at - surplus
            for buffer in (self.rows, self.h, self.gates, self.values, self.inputs):
                buffer[: kept + 1] = buffer[surplus : self.at + 1].clone()
            self.at = kept

    def _forward(self, inputs: Tensor) -> None:
        cell, size, depth = self.cell, self.cell.capacity, self.cell.depth
        drives = cell.drive(inputs.unsqueeze(-1))
        read, write = cell.P.mT.contiguous(), self._written()
        self.inputs[self.at : self.at + len(inputs)] = inputs
        for drive in drives:
            at, rows = self.at, self.rows[self.at]
            top = rows[:, :, 1 : 1 + depth].flatten(1).unsqueeze(1)
            h = torch.baddbmm(drive, top, read, out=self.h[at]).clamp_(-50, 50).sigmoid_()
            found = torch.bmm(h, write).squeeze(1)
            value = torch.sigmoid(found[:, : cell.stacks].clamp(-50, 50), out=self.values[at])
            shares = self._shares(found[:, cell.stacks :])
            self.gates[at] = shares
            rows[:, :, 0] = value
            moved = self.rows[at + 1][:, :, 1 : size + 1]
            torch.lerp(rows[:, :, 2:], rows[:, :, :size], shares[:, :, :1], out=moved)
            if shares.shape[2] > 2:  # lerp has given push and the rest; the no-op's share of the rest is what is still to come
                moved.add_(shares[:, :, 2:] * (rows[:, :, 1 : size + 1] - rows[:, :, 2:]))
            self.at = at + 1

    def _written(self) -> Tensor:
        """(R, H, columns) what h is multiplied by: D, then the actions' logits, for two actions their difference."""
        action = self.cell.A.unflatten(1, (self.cell.stacks, -1))
        logits = action[:, :, :1] - action[:, :, 1:] if action.shape[2] == 2 else action
        return torch.cat([self.cell.D, logits.flatten(1, 2)], dim=1).mT.contiguous()

    def _shares(self, logits: Tensor) -> Tensor:
        """(R, M, actions) of what `_written` gives."""
        if len(self.cell.actions) == 2:
            push = torch.sigmoid(self.cell.beta * logits).unsqueeze(2)
            return torch.cat([push, 1 - push], dim=2)
        return torch.softmax(self.cell.beta * logits.unflatten(1, (self.cell.stacks, -1)), dim=2)

    def _backward(self, from_output: Tensor, new: int) -> None:
        """from_output: (new, R, 1, H) errors of h."""
        cell, steps, size, depth = self.cell, self.at, self.cell.capacity, self.cell.depth
        restarts, stacks, actions = cell.prefix[0], cell.stacks, len(cell.actions)
        rows, gates, values = self.rows, self.gates, self.values
        back = self._written().mT.contiguous()
        error = rows.new_zeros(restarts, stacks, size + 2)  # of the stacks after the step, padded with zeros
        before = torch.zeros_like(error)
        found = rows.new_empty(steps, restarts, 1, back.shape[1])  # errors of values and logits before their functions
        hidden = rows.new_empty(steps, restarts, 1, cell.hidden)
        curved = self.h[:steps] * (1 - self.h[:steps])
        slopes = values[:steps] * (1 - values[:steps])
        two = actions == 2
        bend = cell.beta * gates[:steps, :, :, 0] * gates[:steps, :, :, 1] if two else None
        for t in range(steps - 1, -1, -1):
            inner, own, share = error[:, :, 1 : size + 1], rows[t], gates[t]
            pushed, popped = own[:, :, :size], own[:, :, 2:]
            own_found = found[t].squeeze(1)
            own_found[:, :stacks] = (share[:, :, 0] * inner[:, :, 0] * slopes[t]).clamp_(-CLIP, CLIP)
            if bend is not None:
                own_found[:, stacks:] = (torch.linalg.vecdot(inner, pushed - popped).clamp_(-CLIP, CLIP) * bend[t]).clamp_(
                    -CLIP, CLIP
                )
            else:
                kept = own[:, :, 1 : size + 1]
                told = torch.stack([torch.linalg.vecdot(inner, one) for one in (pushed, popped, kept)], dim=2).clamp_(
                    -CLIP, CLIP
                )
                logits = cell.beta * share * (told - (share * told).sum(2, keepdim=True))
                own_found[:, stacks:] = logits.clamp_(-CLIP, CLIP).flatten(1)
            h = torch.bmm(found[t], back, out=hidden[t])
            if t >= steps - new:
                h += from_output[t - (steps - new)]
            h.clamp_(-CLIP, CLIP).mul_(curved[t])
            inside = before[:, :, 1 : size + 1]
            torch.lerp(error[:, :, :size], error[:, :, 2:], share[:, :, :1], out=inside)
            if not two:
                inside.add_(share[:, :, 2:] * (inner - error[:, :, :size]))
            inside[:, :, :depth] += torch.bmm(h, cell.P).view(restarts, stacks, depth)
            inside.clamp_(-CLIP, CLIP)
            error, before = before, error
        self._collect(found.squeeze(2), hidden.squeeze(2), steps)

    def _collect(self, found: Tensor, hidden: Tensor, steps: int) -> None:
        """Gradients of weights: products over the window."""
        cell, depth = self.cell, self.cell.depth
        tops = self.rows[:steps, :, :, 1 : 1 + depth].flatten(2)
        cell.P.grad = hidden.movedim(0, 2) @ tops.movedim(0, 1)
        written = found.movedim(0, 2) @ self.h[:steps].squeeze(2).movedim(0, 1)
        cell.D.grad, logits = written[:, : cell.stacks].contiguous(), written[:, cell.stacks :]
        cell.A.grad = torch.stack([logits, -logits], dim=2).flatten(1, 2) if len(cell.actions) == 2 else logits.contiguous()
        hot = functional.one_hot(self.inputs[:steps], cell.inputs).to(hidden)
        cell.U.grad = hidden.movedim(0, 2) @ hot.movedim(0, 1)
