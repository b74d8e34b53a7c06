"""The contract of a sequence cell: one step, state in, state out. It sees no text, no loss and no file.

Every weight may have a leading dimension of restarts: R nets of the same shape, with weights of their own, step together. In
shapes, `R` stands for that dimension and is absent without restarts; B are sequences side by side, T tokens, E the width of an
input, H of the state h.
"""

import abc
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.errors import ConfigurationError

State = dict[str, Tensor]
Signals = dict[str, Tensor]
Shape = tuple[int, ...]


class SequenceCell(nn.Module, abc.ABC):
    """Base of all sequence cells.

    inputs: E, the number of symbols where inputs are symbols. hidden: H. restarts: R, or None for one net without that
    dimension. A subclass sets `fields` (what is carried: name -> shape), `signals` (what it can show of itself), `empty` (what
    a field starts with, where not zero) and `positive` (whether h lies between 0 and 1), adds its weights with `add` and
    defines `step`.
    """

    positive = False

    def __init__(self, inputs: int, hidden: int, *, restarts: int | None = None):
        super().__init__()
        for name, value in (("inputs", inputs), ("hidden", hidden), ("restarts", restarts)):
            if value is not None and value < 1:
                raise ConfigurationError(f"{name!r} is {value}; it must be at least 1.")
        self.inputs, self.hidden, self.restarts = inputs, hidden, restarts
        self.fields: dict[str, Shape] = {"h": (hidden,)}
        self.signals: dict[str, Shape] = {}
        self.empty: dict[str, float] = {}

    @property
    def prefix(self) -> Shape:
        """(R,) or ()."""
        return () if self.restarts is None else (self.restarts,)

    def add(self, name: str, *shape: int) -> None:
        """A weight (R, *shape), not yet filled."""
        self.register_parameter(name, nn.Parameter(torch.empty(*self.prefix, *shape)))

    def start(self, batch: int) -> State:
        """The state before the first token: (R, B, *shape) per field."""
        like = next(self.parameters())
        return {
            name: like.new_full((*self.prefix, batch, *shape), self.empty.get(name, 0.0)) for name, shape in self.fields.items()
        }

    def drive(self, x: Tensor) -> Tensor:
        """What inputs add to the state: U x, for vectors (..., R, B, E) or symbols (..., R, B), whole numbers."""
        weight = self.get_parameter("U")
        if x.is_floating_point():
            return x @ weight.mT
        if self.restarts is None:
            return functional.embedding(x, weight.mT)
        nets = torch.arange(self.restarts, device=x.device).unsqueeze(1)
        return weight.mT[nets, x]

    @abc.abstractmethod
    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        """One token: what `drive` gives for it, (R, B, rows of U), and the state before it. Returns the state after it, and
        signals."""

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """h after every token (T, R, B, H), and the last state: for symbols (T, R, B) or vectors (T, R, B, E)."""
        driven = self.drive(x)
        state = self.start(driven.shape[-2]) if state is None else state
        found = []
        for one in driven:
            state, _ = self.step(one, state)
            found.append(state["h"])
        return torch.stack(found), state

    def window(self, driven: Tensor, state: State, clip: float) -> Tensor:
        """h after every token (T, R, B, H) for what `drive` gives, from a state on. On the way back the gradient of every field
        at every token is held within -clip and clip, and none reaches the state that was given."""
        found, state = [], detached(state)
        for one in driven:
            state, _ = self.step(one, state)
            for value in state.values():
                if value.requires_grad:
                    value.register_hook(lambda gradient: gradient.clamp(-clip, clip))
            found.append(state["h"])
        return torch.stack(found)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values: uniform within 1 / sqrt(H), as the framework does, where a cell says nothing else."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.hidden**-0.5), self.hidden**-0.5, generator=generator)

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, hidden={self.hidden}, fields={self.fields}, restarts={self.restarts}"


def detached(state: Mapping[str, Tensor]) -> State:
    """The same numbers, without the way back."""
    return {name: value.detach() for name, value in state.items()}


def tokens_times(x: Tensor, weight: Tensor) -> Tensor:
    """All x (T, R, B, in) times a weight (R, out, in), transposed: (T, R, B, out), the weight read once for all tokens."""
    found = x.movedim(0, -3).flatten(-3, -2) @ weight.mT
    return found.unflatten(-2, (len(x), x.shape[-2])).movedim(-3, 0)


def of_weight(gradients: Tensor, x: Tensor) -> Tensor:
    """The gradient (R, out, in) of a weight, from x (T, R, B, in) and that of their products with it (T, R, B, out)."""
    return gradients.movedim(0, -3).flatten(-3, -2).mT @ x.movedim(0, -3).flatten(-3, -2)
