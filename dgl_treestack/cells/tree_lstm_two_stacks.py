"""Tree-LSTM with two stacks of scalars per node, one for the cell and one for the hidden state: the first stack equations."""

from typing import Any

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells.memory import stack
from dgl_treestack.cells.tree_rnn_scalar_stack import ScalarStack


class TreeLSTMTwoStacks(Cell):
    """Note of March 2019, eq. 8-23; x is c or h, and so is every stack's index:

        i, o   = sigma(U_1 h_1 + ... + U_A h_A + b)      f_k alike, u with tanh
        s_xC[i] = [s_x1[i]; ...; s_xA[i]]
        c      = i * u + sum_k f_k * c_k + sigma(P_c [s_c1[0 : k]; ...; s_cA[0 : k]])
        h      = o * tanh(c) + sigma(P_h [s_h1[0 : k]; ...; s_hA[0 : k]])
        a_x    = softmax(A_x x)                           push, pop
        s_x[0] = a_push sigma(D_x x)               + a_pop sigma(D_xpop s_xC[1])
        s_x[i] = a_push sigma(D_xpush s_xC[i-1])   + a_pop sigma(D_xpop s_xC[i+1])

    Shapes: h, c (H,), c_stack, h_stack (stack_size, 1), A_x (2, H), D_x (1, H), D_xpush, D_xpop (1, A), P_x (H, A k). The note
    prints D_x as 2 x m, which does not give a scalar, and a node's own stacks on the right of eq. 16-19, where those of the
    children are defined and meant. One bias per forget gate, where eq. 9 prints one for all.
    Order: c, then h, from the children's stacks; then the node's stacks from c and h.
    Eq. 17 and 19 print no sigma at D_xpop; eq. 16 and 18 do, and this cell has it (`printed=True` leaves it out below the top).
    Child-sum (eq. 2-8 of Tai et al. 2015): sums in place of concatenations, f_k from h_k alone.
    Dropout acts on u, as in the authors' Tree-LSTM.
    """

    def __init__(self, *sizes: Any, stack_size: int = 5, top_k: int = 1, printed: bool = False, **common: Any):
        super().__init__(*sizes, **common)
        self.fields["c"] = self.noise["u"] = (self.hidden,)
        self.signals = {"input": (self.hidden,), "output": (self.hidden,), "forget": (PER_CHILD, self.hidden)}
        self.stacks = {x: ScalarStack(self, f"{x}_stack", (self.hidden, 0), stack_size, top_k, printed) for x in ("c", "h")}
        self.signals.update({f"{x}_{action}": (1,) for x in self.stacks for action in stack.ACTIONS[:2]})
        self.add_map("gates", 3)

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        gates, f = self.map(ops, "gates", children["h"], inputs)
        i, o, f = torch.sigmoid(gates[:, 0]), torch.sigmoid(gates[:, 1]), torch.sigmoid(f)
        u = dropped(torch.tanh(gates[:, 2]), noise, "u")
        c = i * u + (f * children["c"]).sum(1) + torch.sigmoid(self.stacks["c"].read(ops, children))
        h = o * torch.tanh(c) + torch.sigmoid(self.stacks["h"].read(ops, children))
        state, signals = {"h": h, "c": c}, {"input": i, "output": o, "forget": f}
        for x, memory in self.stacks.items():
            state[f"{x}_stack"], actions = memory.update(ops, children, state[x])
            signals.update({f"{x}_{action}": gate for action, gate in zip(stack.ACTIONS, actions, strict=False)})
        return state, signals


MODELS = {
    "tree_lstm_two_stacks": CellSpec(
        TreeLSTMTwoStacks, "note of March 2019", "8-23", "stacks of scalars for cell and hidden state"
    ),
}
