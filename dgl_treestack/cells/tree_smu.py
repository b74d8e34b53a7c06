"""Tree-SMU, the stack-augmented Tree-LSTM: a stack in place of the memory cell."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from dgl_treestack.cells._contract import PER_CHILD, Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.cells._layers import ACTIVATIONS
from dgl_treestack.cells.memory import stack
from dgl_treestack.plain_data import one_of, switch, whole

NORMALISATIONS = ("none", "sum", "softmax")


class TreeSMU(Cell):
    """Arabshahi 2020, eq. 1-14; Arabshahi 2019, eq. 16-32, is the same without normalisation:

        i        = [h_1; ...; h_A]
        f_k      = sigma(U_fk i + b_fk)                       one forget gate per child
        S_c[r]   = sum_k f_k * S_k[r]                         children's stacks combined, every row by the same gate
        a_x      = normalise(sigma(A_x i + b_x))              x = push, pop, no-op; one gate per element
        u        = tanh(U_u i + b_u)
        S[0]     = a_push * u        + a_pop * S_c[1]   + a_noop * S_c[0]
        S[r]     = a_push * S_c[r-1] + a_pop * S_c[r+1] + a_noop * S_c[r]
        p        = sigma(U_p i + b_p)                         k numbers, only for top_k = k > 1
        o        = sigma(U_o i + b_o)
        h        = o * tanh(p S[0 : k])                       and o * tanh(S[0]) for k = 1

    Shapes: h (H,), stack S (stack_size, H), the matrices (H, A H) stacked in the order u, o, push, pop, [no-op], f_1 .. f_A.
    `normalise` is `sum` (gates divided by their sum; the paper says "element-wise normalised to 1"), `softmax` (a softmax over
    the sigmoids, as in the authors' code) or `none` (2019). `noop=False` leaves out the third action. `activation` is the
    function at u and at the output. U_p takes i, of width A H; the paper prints k x n. A leaf's stack is empty: zeros.
    So row r is first filled at height r + 1 and, for k = 1, at the top from height 2 r + 1: deeper rows change no output.
    Child-sum: i = h_1 + ... + h_A, and f_k = sigma(U_f h_k + b_f).
    Dropout acts on u, as in the authors' code; the papers do not say where.
    """

    def __init__(
        self,
        *sizes: Any,
        stack_size: int = 5,
        noop: bool = True,
        normalise: str = "sum",
        top_k: int = 1,
        activation: str = "tanh",
        **common: Any,
    ):
        super().__init__(*sizes, **common)
        hidden = self.hidden
        self.actions = stack.ACTIONS if switch(noop, "noop") else stack.ACTIONS[:2]
        self.normalise = one_of(NORMALISATIONS, normalise, "normalise")
        self.activation = ACTIVATIONS[one_of(ACTIVATIONS, activation, "activation")]
        self.fields["stack"] = (whole(stack_size, "stack_size", 1), hidden)
        self.top_k = whole(top_k, "top_k", 1, stack_size)
        self.signals = {**dict.fromkeys(self.actions, (hidden,)), "output": (hidden,), "forget": (PER_CHILD, hidden)}
        self.noise = {"u": (hidden,)}
        self.add_map("gates", 2 + len(self.actions))
        if top_k > 1:
            self.add_product("read", self.joined(hidden), (top_k, 0))

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        # `split` in place of slices, whose gradients are one `cat`: fewer operations for a GPU.
        vectors, f = self.map(ops, "gates", children["h"], inputs)
        candidate, gates = vectors.split([1, vectors.shape[1] - 1], 1)
        u = dropped(self.activation(candidate.squeeze(1)), noise, "u")
        o, gates = torch.sigmoid(gates).split([1, len(self.actions)], 1)
        o, f = o.squeeze(1), torch.sigmoid(f)
        if self.normalise == "sum":
            gates = cast(Tensor, _Normalised.apply(gates))
        elif self.normalise == "softmax":
            gates = torch.softmax(gates, dim=1)
        actions = gates.unbind(1)
        memory = self.write(f, children, u, actions)
        top = memory["stack"][:, 0]
        if self.top_k > 1:
            top = stack.read(memory["stack"], torch.sigmoid(ops.linear("read", self.join(children["h"], inputs))))
        signals = {**dict(zip(self.actions, actions, strict=True)), "output": o, "forget": f}
        return {"h": o * self.activation(top), **memory}, signals

    def write(self, f: Tensor, children: State, u: Tensor, actions: Sequence[Tensor]) -> State:
        """Return all fields but h: the children's stacks combined by the gates f (nodes, A, H), then updated."""
        combined = (f.unsqueeze(2) * children["stack"]).sum(1)
        return {"stack": stack.update(combined, u, *actions)}


class _Normalised(torch.autograd.Function):
    """gates / sum of gates over dimension 1: half as many operations backward as autograd alone. All sums are above 1e-30."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor) -> Tensor:
        total = gates.sum(1, keepdim=True).clamp_min(1e-30)
        normalised = gates / total
        ctx.save_for_backward(gates, normalised)  # input and output alone: the gradient has a gradient, too
        return normalised

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gates, normalised = ctx.saved_tensors
        total = gates.sum(1, keepdim=True).clamp_min(1e-30)
        return (gradient - (gradient * normalised).sum(1, keepdim=True)) / total


MODELS = {
    "tree_lstm_stack": CellSpec(
        TreeSMU, "Arabshahi 2019", "16-29", "a stack in place of the cell", {"noop": False, "normalise": "none"}
    ),
    "tree_lstm_stack_normalise": CellSpec(TreeSMU, "Arabshahi 2019", "16-29", "push and pop sum to one", {"noop": False}),
    "tree_lstm_stack_normalise_noop": CellSpec(TreeSMU, "Arabshahi 2019", "16-32", "the no-op action"),
    "tree_smu": CellSpec(TreeSMU, "Arabshahi 2020", "1-14", "the same model under its later name"),
    "tree_smu_child_sum": CellSpec(TreeSMU, "Arabshahi 2020", "1-14", "children summed (Tai 2015)", {"form": "child_sum"}),
    "tree_smu_pushpop": CellSpec(TreeSMU, "Arabshahi 2020", "1-11", "push and pop alone", {"noop": False}),
    "tree_smu_top2": CellSpec(TreeSMU, "Arabshahi 2020", "1-14", "output from the two topmost rows", {"top_k": 2}),
    "tree_smu_released": CellSpec(
        TreeSMU, "Arabshahi 2020, released code", "-", "softmax over the sigmoids", {"normalise": "softmax"}
    ),
}
