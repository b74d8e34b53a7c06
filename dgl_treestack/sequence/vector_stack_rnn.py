"""Stack RNN over vectors: a rectified recurrent net with one stack of vectors, as Delétang et al. 2023 have it."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.sequence.stack_rnn import StackRNN


class VectorStackRNN(StackRNN):
    """The 'Stack-RNN' of Delétang et al. 2023, after their program (the paper cites Joulin & Mikolov 2015):

        h_t  = max(0, U x_t + R h_{t-1} + P S_{t-1}[0] + b)
        a    = softmax(A h_t + c)                                push, pop and no-op
        v    = D h_t + d
        S[0] = a_push v      + a_pop S[1]   + a_noop S[0]
        S[i] = a_push S[i-1] + a_pop S[i+1] + a_noop S[i]

    Shapes: h (H,), stack (1, rows, W), U (H, E), R (H, H), P (H, W), A (3, H), D (W, H), b (H,), c (3,), d (W,).
    It differs from `StackRNN`: one stack whose cells are vectors, where that has several of numbers; pushed values are linear,
    not sigmoids; h is rectified, not a sigmoid; h reads the top row only, not two; there are biases; an empty row is 0, not -1.
    Deviation from their program: the stack grows by a row with every token, so that nothing is lost; theirs has as many rows as
    its setting says, 30 by default; the paper had 128 in training and more in tests.
    """

    b: nn.Parameter
    c: nn.Parameter
    d: nn.Parameter
    positive, by_hand, linear = False, True, True

    def __init__(self, inputs: int, hidden: int, *, width: int = 8, **common: Any):
        stack: dict[str, Any] = {"stacks": 1, "noop": True, "recurrence": "full", "empty": 0.0, "capacity": 0}
        super().__init__(inputs, hidden, width=width, depth=1, **stack, **common)
        for name, size in (("b", hidden), ("c", len(self.actions)), ("d", width)):
            self.add(name, 1, size)

    def drive(self, x: Tensor) -> Tensor:
        """Return U x + b."""
        return super().drive(x) + self.b

    def act(self, total: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        h = torch.relu(total)
        return h, self.mixture(h @ self.A.mT + self.c), h @ self.D.mT + self.d

    def write_weights(self) -> tuple[Tensor, Tensor]:
        return torch.cat([self.D, self.d.mT], -1), torch.cat([self.A, self.c.mT], -1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw weights as a linear layer of Haiku, the library of the program, does; x and the top of the stack are one input.

        From a normal distribution with the deviation 1 / sqrt(number of inputs), cut at two deviations. Biases are 0.
        """
        # Of reversed strings of length 500 75 % was right after 4,000 steps of 128, at a rate of 3e-3; with weights drawn from
        # U(-1 / sqrt(H), 1 / sqrt(H)) 72 % after 10,000. A higher rate brings far more: `experiments.chomsky`.
        inputs = {"U": self.inputs + self.width, "P": self.inputs + self.width}
        for name, parameter in self.named_parameters():
            if name in "bcd":
                nn.init.zeros_(parameter)
                continue
            deviation = inputs.get(name, self.hidden) ** -0.5
            nn.init.trunc_normal_(parameter, 0.0, deviation, -2 * deviation, 2 * deviation, generator=generator)
