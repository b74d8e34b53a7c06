"""The contract of a sequence cell: one step, state in, state out. It sees no text, no loss and no file.

Weights may have a leading dimension of restarts: R nets of the same shape with separate weights, computed together. In shapes,
R is that dimension, absent without restarts; B is the number of parallel sequences, T of tokens, E the width of an input, H
that of the state h.
"""

import abc

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.settings import whole

State = dict[str, Tensor]
Signals = dict[str, Tensor]
Shape = tuple[int, ...]


class SequenceCell(nn.Module, abc.ABC):
    """Base of all sequence cells.

    inputs: E, or the number of symbols if inputs are symbols. hidden: H. restarts: R, or None for one net without that
    dimension. `prefix` is (R,) or ().

    A subclass declares `fields` (the state: name -> shape), `signals` (what `step` can report: name -> shape), `empty` (the
    initial value of a field: name -> number, 0 for fields that are not named) and `positive` (whether h is between 0 and 1),
    adds its weights with `add`, including U, and defines `step`.
    Raises ConfigurationError for a size below 1.
    """

    positive = False

    def __init__(self, inputs: int, hidden: int, *, restarts: int | None = None):
        super().__init__()
        whole(inputs, "inputs", 1, 10**9)
        whole(hidden, "hidden", 1)
        if restarts is not None:
            whole(restarts, "restarts", 1)
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
        """Compute one token: return the state after it and the signals. drive: the result of `drive` for it, (R, B, rows of U).
        state: the state before it."""

    def unroll(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Run over symbols (T, R, B) or vectors (T, R, B, E): h after every token (T, R, B, H), and the last state.

        state: the initial state, by default that of `start`.
        """
        driven = self.drive(x)
        state = self.start(driven.shape[-2]) if state is None else state
        outputs = []
        for drive in driven:
            state, _ = self.step(drive, state)
            outputs.append(state["h"])
        return torch.stack(outputs), state

    def window(self, driven: Tensor, state: State, clip: float) -> Tensor:
        """Run over the results of `drive`, from a state: h after every token (T, R, B, H).

        In the backward pass the gradient of every field at every token is clamped to [-clip, clip], and none reaches `state`.
        """
        outputs, state = [], {name: value.detach() for name, value in state.items()}
        for drive in driven:
            state, _ = self.step(drive, state)
            for value in state.values():
                if value.requires_grad:
                    value.register_hook(lambda gradient: gradient.clamp(-clip, clip))
            outputs.append(state["h"])
        return torch.stack(outputs)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all initial values: from U(-1 / sqrt(H), 1 / sqrt(H)), as torch does, unless a subclass says otherwise."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.hidden**-0.5), self.hidden**-0.5, generator=generator)

    def extra_repr(self) -> str:
        return f"inputs={self.inputs}, hidden={self.hidden}, fields={self.fields}, restarts={self.restarts}"


def weight_gradient(gradients: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradient (R, m, n) of a weight that all tokens share, as one product.

    gradients: those of its outputs (T, R, B, m). inputs: (T, R, B, n).
    """
    of_outputs, of_inputs = (values.movedim(0, -3).flatten(-3, -2) for values in (gradients, inputs))  # (R, T B, m or n)
    return of_outputs.mT @ of_inputs
