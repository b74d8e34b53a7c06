"""The structurally constrained recurrent net: a part of its state changes slowly."""

from typing import Any

import torch
from torch import Tensor, nn

from dgl_treestack.cells import Signals, State
from dgl_treestack.plain_data import number, whole
from dgl_treestack.sequence._contract import SequenceCell


class SCRN(SequenceCell):
    """Mikolov et al. 2015, eq. 2-3, the model called SRCN [24] in Joulin & Mikolov 2015, Table 4:

        s_t = (1 - alpha) B x_t + alpha s_{t-1}
        h_t = sigma(P s_t + A x_t + R h_{t-1})

    Shapes: the state h is [h; s] (H,), of which `context` are s; U = [A; B] (H, E), P (H - context, context), R. No biases.
    """

    U: nn.Parameter
    P: nn.Parameter
    R: nn.Parameter

    def __init__(self, inputs: int, hidden: int, *, context: int = 40, alpha: float = 0.95, **common: Any):
        super().__init__(inputs, hidden, **common)
        self.context, self.alpha = whole(context, "context", 1, hidden - 1), number(alpha, "alpha", 0.0, 1.0)
        self.add("U", hidden, inputs)
        self.add("P", hidden - context, context)
        self.add("R", hidden - context, hidden - context)

    def step(self, drive: Tensor, state: State) -> tuple[State, Signals]:
        fast, slow = state["h"].split([self.hidden - self.context, self.context], dim=-1)
        into_fast, into_slow = drive.split([self.hidden - self.context, self.context], dim=-1)
        slow = torch.lerp(into_slow, slow, self.alpha)
        fast = torch.sigmoid(slow @ self.P.mT + into_fast + fast @ self.R.mT)
        return {"h": torch.cat([fast, slow], dim=-1)}, {}
