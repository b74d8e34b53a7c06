"""Tree-SMU with a queue in place of the stack, the alternative that Arabshahi 2020 argues against."""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dgl_treestack.cells._contract import CellSpec, State
from dgl_treestack.cells.memory import stack
from dgl_treestack.cells.tree_smu import TreeSMU
from dgl_treestack.errors import ConfigurationError


class TreeQueue(TreeSMU):
    """Arabshahi 2020, eq. 1-14 with a queue, which section 3 describes without an equation ("if a queue was used instead"):

        Q_c[r]   = sum_k f_k * Q_k[r]                         children's queues combined as the stacks are
        t_c[r]   = 1 - prod_k (1 - t_k[r])                    a row is filled if it is in any child
        e[r]     = (1 - t_c[r]) prod_{s < r} t_c[s]           the first free row
        Q[r]     = a_push * (Q_c[r] + e[r] * u) + a_pop * Q_c[r+1] + a_noop * Q_c[r]
        t[r]     = a_push * (t_c[r] + e[r])     + a_pop * t_c[r+1] + a_noop * t_c[r]
        h        = o * tanh(Q[0])                             the front, which is the oldest; gates and u as in Tree-SMU

    Shapes: h (H,), stack Q and filled t (stack_size, H); row stack_size is zero. The rest as in Tree-SMU.
    The soft queue is ours; the paper gives no equation for it.
    """

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        if settings.get("normalise") == "none":
            raise ConfigurationError("A queue needs actions that sum to one. Set normalise to 'sum' or 'softmax'.")
        self.fields["filled"] = self.fields["stack"]

    def write(self, f: Tensor, children: State, u: Tensor, actions: Sequence[Tensor]) -> State:
        """Return all fields but h: the children's queues combined by the gates f (nodes, A, H), then updated."""
        combined = (f.unsqueeze(2) * children["stack"]).sum(1)
        filled = 1 - reduce(torch.mul, (1 - children["filled"]).unbind(1))
        rows, filled = update(combined, filled, u, *actions)
        return {"stack": rows, "filled": filled}


def update(
    queue: Float[Tensor, "N S H"],
    filled: Float[Tensor, "N S H"],
    value: Float[Tensor, "N H"],
    *gates: Float[Tensor, "N #H"],
) -> tuple[Float[Tensor, "N S H"], Float[Tensor, "N S H"]]:
    """Return queue and `filled` after a soft action: append `value` at the end, remove row 0, or no-op.

    queue: N nodes, S rows of width H, row 0 the front. filled: how much of each row is filled, from 0 to 1; filled rows come
    first. The queue has a fixed size: a value appended to a full queue is lost, a row removed from an empty queue is zero.
    gates: weights of appending, removing and, optionally, the no-op: one number per node, (N, 1), or one per element, (N, H).
    """
    front, *_ = rows = filled.unbind(1)
    # Not `cumprod`, which native code cannot split into rows: it took 1.33 times an earlier engine's time, not 0.84.
    filled_before = torch.stack([*accumulate(rows[:-1], torch.mul, initial=torch.ones_like(front))], dim=1)
    end = filled_before * (1 - filled)  # the weight of each row as the first free one
    queues = (queue + end * value.unsqueeze(1), stack.pop(queue), queue)[: len(gates)]
    fillings = (filled + end, stack.pop(filled), filled)[: len(gates)]
    weights = [gate.unsqueeze(1) for gate in gates]
    return stack.weighted_sum(queues, weights), stack.weighted_sum(fillings, weights)


MODELS = {
    "tree_queue": CellSpec(TreeQueue, "Arabshahi 2020", "section 3", "a queue in place of the stack"),
}
