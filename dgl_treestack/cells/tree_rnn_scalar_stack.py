"""Tree-RNN with a stack of scalars per node: the first stack equations."""

from typing import Any

from torch import Tensor

from dgl_treestack.cells._contract import ACTIVATIONS, Cell, CellSpec, Noise, Ops, Signals, State, dropped, one_of
from dgl_treestack.cells._scalar_stack import ScalarStack
from dgl_treestack.cells.memory import stack


class TreeRNNScalarStack(Cell):
    """Note of March 2019, eq. 1-7:

        I      = [O_1; ...; O_A]                      s_C[i] = [s_1[i]; ...; s_A[i]]
        O      = f(W I + P [s_1[0 : k]; ...; s_A[0 : k]] + b)   eq. 7: the children's stacks; b as in eq. 2
        a      = softmax(A I)                          push, pop
        s[0]   = a_push sigma(D I)              + a_pop sigma(D_pop s_C[1])
        s[i]   = a_push sigma(D_push s_C[i-1])  + a_pop sigma(D_pop s_C[i+1])

    Shapes: O = h (H,), stack s (stack_size, 1), A (2, A H), D (1, A H), D_push, D_pop (1, A), P (H, A k). No biases but b.
    Eq. 5 prints no sigma at D_pop; eq. 4 does, and this cell has it (`printed=True` leaves it out below the top).
    Row stack_size, below the bottom, is zero. Child-sum: sums in place of both concatenations.
    Dropout acts on h; the note does not say where.
    """

    def __init__(
        self,
        *sizes: Any,
        stack_size: int = 5,
        top_k: int = 1,
        printed: bool = False,
        activation: str = "sigmoid",
        **common: Any,
    ):
        super().__init__(*sizes, **common)
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.noise = {"h": (self.hidden,)}
        self.stack = ScalarStack(self, "stack", self.joined(self.hidden), stack_size, top_k, printed)
        self.signals = dict.fromkeys(stack.ACTIONS[:2], (1,))
        self.add_product("state", self.joined(self.hidden), (self.hidden, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        x = self.join(children["h"], inputs)
        h = dropped(self.activation(ops.linear("state", x) + self.stack.read(ops, children)), noise, "h")
        memory, actions = self.stack.update(ops, children, x)
        return {"h": h, "stack": memory}, dict(zip(stack.ACTIONS, actions, strict=False))


MODELS = {
    "tree_rnn_scalar_stack": CellSpec(TreeRNNScalarStack, "note of March 2019", "1-7", "a stack of scalars beside the state"),
}
