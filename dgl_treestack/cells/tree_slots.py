"""Tree-Slots: a state of slots, which one small network per operator updates one by one."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack.cells._contract import Cell, CellSpec, Noise, Ops, Signals, State, dropped
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import switch, whole

EPSILON = 1e-6
MAX_SLOTS = 8


class TreeSlots(Cell):
    """`docs/results/beyond.md`, eq. 1-3. h is K slots of d numbers. For every slot k,

        x    = [h_1[k]; ...; h_A[k]]
        a, b = split(U x + b_U)
        y    = D (silu(a) * b) + b_D + S x + b_S
        h[k] = y / rms(y)                               rms(y) = sqrt(mean(y^2) + 1e-6)

    Shapes: h (K d,), U (2m, A d), D (d, m), S (d, A d). U, D, S belong to the operator and are the same for all slots; no slot
    sees another one. A leaf's h is normalised in the same way.
    Child-sum: x = h_1[k] + ... + h_A[k]. External input is appended to x. Dropout acts on h before the normalisation.

    slots: K, 0 for the largest number up to 8 that divides the width of h into slots of two numbers at least. inner: m, 0 for
    4 d. For ablations: mixed: x also has the mean over slots of every child, 2 A d numbers in all. normalise: whether y is
    divided. layers: 1 leaves y = S x + b_S. shared: without it every slot has its own U, D and S.
    """

    def __init__(
        self,
        *sizes: Any,
        slots: int = 0,
        inner: int = 0,
        mixed: bool = False,
        normalise: bool = True,
        layers: int = 2,
        shared: bool = True,
        **common: Any,
    ):
        super().__init__(*sizes, **common)
        counts = range(1, min(MAX_SLOTS, max(1, self.hidden // 2)) + 1)
        self.slots = whole(slots, "slots", 0) or max(count for count in counts if self.hidden % count == 0)
        self.mixed, self.normalise = switch(mixed, "mixed"), switch(normalise, "normalise")
        self.shared = switch(shared, "shared")
        if self.hidden % self.slots:
            raise ConfigurationError(f"'hidden' is {self.hidden}, which {slots} slots do not divide evenly.")
        width = self.hidden // self.slots
        inner = whole(inner, "inner", 0) or 4 * width
        self.noise = {"h": (self.hidden,)}
        products = {"skip": (self.joined(2 * width if mixed else width), width)}
        if whole(layers, "layers", 1, 2) == 2:
            products |= {"up": (products["skip"][0], 2 * inner), "down": ((inner, 0), width)}
        for product, (inputs, outputs) in products.items():
            for name in self._names(product):
                self.add_product(name, inputs, (outputs, 0))
        self.layers = layers

    def leaf(self, token: Tensor, number: Tensor, encoded: Tensor | None = None) -> State:
        state = super().leaf(token, number, encoded)
        return {**state, "h": self._normalised(state["h"].unflatten(1, (self.slots, -1))).flatten(1)}

    def node(self, ops: Ops, children: State, inputs: Tensor | None, noise: Noise) -> tuple[State, Signals]:
        slots = children["h"].unflatten(2, (self.slots, -1))  # (nodes, A, K, d)
        if self.mixed:
            slots = torch.cat([slots, slots.mean(2, keepdim=True).expand_as(slots)], dim=3)
        external = None if inputs is None else inputs.unsqueeze(1).expand(-1, self.slots, -1)
        x = self.join(slots, external)
        y = self._apply_maps(ops, "skip", x)
        if self.layers == 2:
            a, b = self._apply_maps(ops, "up", x).chunk(2, dim=2)
            y = y + self._apply_maps(ops, "down", functional.silu(a) * b)
        if "h" in noise:
            y = dropped(y.flatten(1), noise, "h").unflatten(1, (self.slots, -1))
        return {"h": self._normalised(y).flatten(1)}, {}

    def _names(self, product: str) -> list[str]:
        return [product] if self.shared else [f"{product}{slot}" for slot in range(self.slots)]

    def _apply_maps(self, ops: Ops, product: str, x: Tensor) -> Tensor:
        """Apply a map to all slots, or every slot's own map to it: (nodes, K, in) -> (nodes, K, out)."""
        if self.shared:
            return ops.linear(product, x)
        return torch.stack([ops.linear(name, x[:, slot]) for slot, name in enumerate(self._names(product))], dim=1)

    def _normalised(self, slots: Tensor) -> Tensor:
        """Divide every slot (..., d) by its root mean square."""
        return slots * torch.rsqrt(slots.square().mean(-1, keepdim=True) + EPSILON) if self.normalise else slots


# Rejected (docs/results/beyond.md): noise on states, labels without a gradient into the cell, renamed variables.
MODELS = {
    "tree_slots": CellSpec(TreeSlots, "docs/results/beyond.md", "1-3", "slots that share one network per operator"),
    "tree_slots_child_sum": CellSpec(
        TreeSlots, "docs/results/beyond.md", "1-3", "children summed (Tai 2015)", {"form": "child_sum"}
    ),
}
