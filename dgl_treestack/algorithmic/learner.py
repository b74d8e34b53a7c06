"""Restarts of a net that learn from streams: gradients of the last tokens of a window, through all of it."""

import abc
from collections import deque

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.algorithmic.stream import Chunk
from dgl_treestack.cells.initializers import draw_summed
from dgl_treestack.sequence import SequenceCell, State, detached

CLIP = 15.0  # of every error signal (Joulin & Mikolov 2015, section 5)
WINDOW = 50  # tokens


class Net(nn.Module):
    """A sequence cell with the layer that predicts the next symbol, R nets side by side: y = softmax(V h)."""

    def __init__(self, cell: SequenceCell):
        super().__init__()
        self.cell = cell
        self.V = nn.Parameter(torch.empty(*cell.prefix, cell.inputs, cell.hidden))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """The cell's own rule; V by the rule of a Stack RNN."""
        self.cell.reset_parameters(generator)
        draw_summed(self.V, generator)

    def read(self, h: Tensor) -> Tensor:
        """Logits (..., R, B, symbols) of states (..., R, B, H)."""
        return h @ self.V.mT


class Learner(abc.ABC):
    """One window after another. `learn` leaves gradients in the net's parameters: of the sum over new tokens, per restart."""

    def __init__(self, net: Net, window: int = WINDOW):
        self.net, self.window = net, window

    @abc.abstractmethod
    def begin(self) -> None:
        """Empty memories: a stream starts."""

    @abc.abstractmethod
    def learn(self, chunk: Chunk) -> Tensor:
        """Gradients for new tokens, carried back through the window. Returns the loss (R,), natural logarithm, summed."""


class AutogradLearner(Learner):
    """Any cell: the window is computed anew for every chunk, from the state before it, and gone back through by the cell."""

    def begin(self) -> None:
        self.state: State = detached(self.net.cell.start(1))
        self.past: deque[tuple[Tensor, int]] = deque()

    def learn(self, chunk: Chunk) -> Tensor:
        new = len(chunk.inputs)
        self.past.append((chunk.inputs, new))
        while sum(count for _, count in self.past) > max(self.window, new):
            old, _ = self.past.popleft()
            with torch.no_grad():
                for drive in self.net.cell.drive(old.unsqueeze(-1)):
                    self.state, _ = self.net.cell.step(drive, self.state)
        inputs = torch.cat([tokens for tokens, _ in self.past])
        h = self.net.cell.window(self.net.cell.drive(inputs.unsqueeze(-1)), self.state, CLIP)[-new:]
        losses = functional.cross_entropy(self.net.read(h).flatten(0, 2), chunk.targets.flatten(), reduction="none").view_as(
            chunk.weights
        )
        self.net.zero_grad(set_to_none=True)
        total: Tensor = (losses * chunk.weights).sum(0)
        total.sum().backward()
        return total.detach()
