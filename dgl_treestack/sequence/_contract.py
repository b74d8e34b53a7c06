"""The contract of a sequence cell: one step, state in, state out; the base of cells with external memories.

A cell sees no text, no loss and no file.

Weights may have a leading dimension of restarts: R nets of the same shape with separate weights, computed together. In shapes,
R is that dimension, absent without restarts; B is the number of parallel sequences, T of tokens, E the width of an input, H
that of the state h.
"""

import abc
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import Shape, Signals, State
from dgl_treestack.plain_data import number, whole

EMPTY = -1.0  # content of an empty cell of a memory in the authors' program
SIGMOID_GAIN = 4.0  # see `draw_as_layer`
LARGEST = 50.0  # the authors' program clamps the arguments of sigmoids to this magnitude


class SequenceCell(nn.Module, abc.ABC):
    """Base of all sequence cells.

    inputs: E, or the number of symbols if inputs are symbols. hidden: H. restarts: R, or None for one net without that
    dimension. `prefix` is (R,) or ().

    A subclass declares `fields` (the state: name -> shape), `signals` (what `step` can report: name -> shape), `empty` (the
    initial value of a field, by default 0) and `positive` (whether h is between 0 and 1), adds its weights with `add`,
    including U, and defines `step`.
    """

    positive = False

    def __init__(self, inputs: int, hidden: int, *, restarts: int | None = None):
        super().__init__()
        whole(hidden, "hidden", 1)
        self.inputs, self.hidden, self.restarts = inputs, hidden, restarts
        self.prefix: Shape = () if restarts is None else (restarts,)
        self.fields: dict[str, Shape] = {"h": (hidden,)}
        self.signals: dict[str, Shape] = {}
        self.empty: dict[str, float] = {}

    def add(self, name: str, *shape: int) -> None:
        """Add an uninitialised weight (R, *shape)."""
        self.register_parameter(name, nn.Parameter(torch.empty(*self.prefix, *shape)))

    def start(self, batch: int) -> State:
        """Return the state before the first token: (R, B, *shape) per field."""
        like = next(self.parameters())
        return {
            name: like.new_full((*self.prefix, batch, *shape), self.empty.get(name, 0.0)) for name, shape in self.fields.items()
        }

    def drive(self, x: Tensor) -> Tensor:
        """Return U x for vectors x (..., R, B, E), or the columns of U for symbols x (..., R, B), which are integers."""
        weight = self.get_parameter("U")
        if x.is_floating_point():
            return x @ weight.mT
        if self.restarts is None:
            return functional.embedding(x, weight.mT)
        nets = torch.arange(self.restarts, device=x.device).unsqueeze(1)
        return weight.mT[nets, x]

    @abc.abstractmethod
    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        """Return the state after a token and the signals. drive: the result of `drive` for it, (R, B, rows of U)."""

    def unroll(self, x: Tensor, state: State | None = None, clip: float | None = None) -> tuple[Tensor, State]:
        """Run over symbols (T, R, B) or vectors (T, R, B, E): h after every token (T, R, B, H), and the last state.

        state: the initial state, by default that of `start`. clip: in the backward pass the gradient of every field at every
        token is clamped to [-clip, clip], and none reaches `state`. A subclass may compute the same by hand.
        """
        driven = self.drive(x)
        state = self._initial(driven, state, clip)
        outputs = []
        for drive in driven:
            state, _ = self.step(drive, state)
            for value in state.values():
                if clip is not None and value.requires_grad:  # hooks, so that any cell can be clipped at every token
                    value.register_hook(partial(torch.clamp, min=-clip, max=clip))
            outputs.append(state["h"])
        return torch.stack(outputs), state

    def _initial(self, driven: Tensor, state: State | None, clip: float | None) -> State:
        """Return the state before the first token. driven: a tensor (..., B, any)."""
        state = self.start(driven.shape[-2]) if state is None else state
        return state if clip is None else {name: value.detach() for name, value in state.items()}

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values: from U(-1 / sqrt(H), 1 / sqrt(H)), as torch does, unless a subclass says otherwise."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.hidden**-0.5), self.hidden**-0.5, generator=generator)

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, hidden={self.hidden}, fields={self.fields}, restarts={self.restarts}"


class ActingCell(SequenceCell):
    """Base of cells with M memories of C cells of width W, each updated by a soft action, a mixture of a `actions`:

        a^m = softmax(beta A_m h_t)        the share of every action
        v^m = sigma(D_m h_t)               the value to write

    depth: number of cells that h reads. empty: content of an empty cell. capacity: C, see `resize`. Weights: A (M a, H) and
    D (M W, H). A subclass names its `memory`.
    Attributes: `beta`, initially 1, is raised during rounding (Joulin & Mikolov 2015, section 3.2); `hard` replaces the mixture
    by the most probable action.
    """

    U: nn.Parameter
    A: nn.Parameter
    D: nn.Parameter
    memory: ClassVar[str]
    sides: ClassVar[int] = 1  # cells to provide per symbol: 2 for a memory that grows to either side of its head

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        memories: int,
        width: int,
        depth: int,
        actions: tuple[str, ...],
        empty: float,
        capacity: int,
        **common: Any,
    ):
        super().__init__(inputs, hidden, **common)
        for name, value in ((f"{self.memory}s", memories), ("width", width), ("depth", depth)):
            whole(value, name, 1)
        self.memories, self.width, self.depth, self.actions = memories, width, depth, actions
        self.beta, self.hard = 1.0, False
        self.empty[self.memory] = number(empty, "empty")
        self.signals = {name: (memories,) for name in actions}
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Set the number of cells per memory, from the next `start` on: tests may be longer than training."""
        self.capacity = capacity
        self.fields[self.memory] = (self.memories, capacity or self.depth, self.width)

    def act(self, total: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Return h = sigma(total), (R, B, H), the shares of the actions, (R, B, M) each, and the values (R, B, M W)."""
        h = torch.sigmoid(total.clamp(-LARGEST, LARGEST))
        return h, self.mixture(h @ self.A.mT), torch.sigmoid((h @ self.D.mT).clamp(-LARGEST, LARGEST))

    def mixture(self, logits: Tensor) -> tuple[Tensor, ...]:
        """Return the shares of the actions, (R, B, M) each. logits: (R, B, M a)."""
        shares = torch.softmax(self.beta * logits.unflatten(-1, (self.memories, -1)), dim=-1)
        if self.hard:
            shares = functional.one_hot(shares.argmax(-1), len(self.actions)).to(shares)
        return shares.unbind(-1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values as the authors' program does."""
        for parameter in self.parameters():
            draw_summed(parameter, generator)


def draw_as_layer(cell: SequenceCell, generator: torch.Generator) -> None:
    """Draw the parameters of a cell within a larger net: as the cell does, times 4 if its h are sigmoids.

    A sigmoid's slope is a quarter of tanh's (Glorot & Bengio 2010): without the factor only the last tokens have an effect, and
    a Stack RNN stays at chance.
    """
    cell.reset_parameters(generator)
    if cell.positive:
        for parameter in cell.parameters():
            parameter.data.mul_(SIGMOID_GAIN)


def draw_summed(weight: Tensor, generator: torch.Generator) -> None:
    """Fill a weight with sums of three draws from U(-0.1, 0.1), as Joulin & Mikolov's program does."""
    draws = torch.empty(3, *weight.shape).uniform_(-0.1, 0.1, generator=generator)
    with torch.no_grad():
        weight.copy_(draws.sum(0))


def weight_gradient(gradients: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradient (R, m, n) of a weight from those of its outputs (T, R, B, m) and its inputs (T, R, B, n)."""
    # Added token by token it took half of a window: 124 ms in place of 60 for two layers of 200, four restarts, 50 tokens.
    of_outputs, of_inputs = (values.movedim(0, -3).flatten(-3, -2) for values in (gradients, inputs))  # (R, T B, m or n)
    return of_outputs.mT @ of_inputs
