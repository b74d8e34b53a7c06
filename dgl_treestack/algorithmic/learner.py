"""Restarts of a net that learn from streams: gradients of the loss of a window's last tokens, through the window.

A learner has two methods. `begin` empties the memories at the start of streams. `learn` processes the new tokens of a chunk,
sets the gradients of their summed loss, per restart, in the net's parameters, and returns that loss (R,), natural logarithm.
"""

from collections import deque

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.algorithmic.stream import Chunk
from dgl_treestack.sequence import SequenceCell, State, draw_summed

CLIP = 15.0  # bound of all error signals (Joulin & Mikolov 2015, section 5)
WINDOW = 50  # tokens


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
        h = cell.window(cell.drive(inputs.unsqueeze(-1)), self.state, CLIP)[-new:]
        losses = functional.cross_entropy(self.net.read(h).flatten(0, 2), chunk.targets.flatten(), reduction="none")
        self.net.zero_grad(set_to_none=True)
        total: Tensor = (losses.view_as(chunk.weights) * chunk.weights).sum(0)
        total.sum().backward()
        return total.detach()
