"""Training signals at nodes: losses on the states of the subtrees of a batch, for any cell or encoder."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.cells import draw_linear
from dgl_treestack.data.forest import Forest
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.plain_data import number, whole
from dgl_treestack.tasks import NodeStates
from dgl_treestack.truth.subtrees import DEFINED, UNKNOWN, Targets

BETA = 0.05  # of the smooth L1 loss of values
EPSILON = 1e-12
OUTPUTS = 3  # per point: real part, imaginary part, and whether the value is defined


@dataclass(frozen=True, eq=False)
class Distinct:
    """The S distinct subtrees of a batch that several processes share out. is_mine: (S,) which of them this one computes.

    subtree: (S,) ids, ascending. height: (S,) of the subtrees.
    """

    subtree: np.ndarray
    height: np.ndarray
    is_mine: np.ndarray


class NodeSignals(nn.Module):
    """The losses of `docs/results/beyond.md`, eq. 4-6, on the distinct subtrees of a batch. h is cut into K slots of d numbers.

        value         (re, im, e) of P / K points = W_2[k] gelu(W_1 h[k] + b_1) + b_2[k]
                      smooth L1 of (re, im) to the value where it is defined, and the logistic loss of e as "defined"; means
                      over subtrees and points, weighted by 1 / sqrt(n), n the number of subtrees of that height
        equivalence   supervised contrastive loss (Khosla et al. 2020, https://arxiv.org/abs/2004.11362, L_out) with temperature
                      on h / |h|, on at most `rows` subtrees; those with equal values are of one class

    Shapes: W_1 (width, d), W_2 (K, 3 P / K, width). Every slot has its own W_2: the functions of mathematics commute with
    conjugation, so that the operators allow a slot either sign of the imaginary part.
    value, equivalence: weights of the losses, 0 for none. points: P. slots: K.
    Raises ConfigurationError for settings that do not fit each other or `hidden`, the width of h.
    """

    def __init__(
        self,
        hidden: int,
        *,
        value: float = 0.0,
        equivalence: float = 0.0,  # beside values it cost a point of accuracy
        points: int = 8,
        slots: int = 1,
        width: int = 32,
        rows: int = 512,
        temperature: float = 0.1,
    ):
        super().__init__()
        self.value, self.equivalence = number(value, "signals.value", 0.0), number(equivalence, "signals.equivalence", 0.0)
        self.points, self.slots = whole(points, "signals.points", 1), whole(slots, "signals.slots", 1)
        self.rows, self.temperature = whole(rows, "signals.rows", 2), number(temperature, "signals.temperature", 1e-6)
        for name, count in (("model.hidden", hidden), ("signals.points", points)):
            if count % slots:
                raise ConfigurationError(f"{name!r} is {count}, which the {slots} slots of the signals do not divide evenly.")
        self.inner: nn.Linear | None = None
        if value:
            outputs = OUTPUTS * points // slots
            self.inner = nn.Linear(hidden // slots, whole(width, "signals.width", 1))
            self.outer = nn.ModuleList(nn.Linear(width, outputs) for _ in range(slots))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the initial values of the value network."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                draw_linear(module.weight, module.bias, generator)

    def predict_values(self, h: Tensor) -> Tensor:
        """Return the predicted values (B, P, 3) from states (B, H): asinh of real and imaginary part, log-odds of "defined"."""
        if self.inner is None:
            raise ConfigurationError("The model was trained without the value signal, so that it predicts no values.")
        inner = functional.gelu(self.inner(h.unflatten(1, (self.slots, -1))))
        predicted = [layer(inner[:, slot]) for slot, layer in enumerate(self.outer)]
        return torch.stack(predicted, dim=1).reshape(len(h), self.points, OUTPUTS)

    def forward(
        self, h: NodeStates, trees: Forest, targets: Targets, generator: np.random.Generator, distinct: Distinct | None = None
    ) -> Tensor:
        """Return the weighted sum of the losses of a batch, a scalar.

        trees: of the batch, selected from the forest of the targets. generator: draws subtrees if there are more than `rows`.
        distinct: subtrees of the whole batch if `trees` are a share of it; the sum over all shares is then the loss.
        """
        arrays = self.arrays(trees, targets, generator, distinct)
        states = h(torch.from_numpy(arrays["node"]))
        tensors = {name: torch.from_numpy(array).to(states.device, non_blocking=True) for name, array in arrays.items()}
        return self.loss(states, tensors)

    def arrays(
        self, trees: Forest, targets: Targets, generator: np.random.Generator, distinct: Distinct | None = None
    ) -> dict[str, np.ndarray]:
        """Return what `loss` reads of a batch besides the states of the nodes `node` (M,). Arguments as of `forward`.

        For values, if any is known, `value`, `status`, `weight` and `mine`, see `_value_loss`; for equivalence `chosen` (n,),
        indices of chosen nodes among the M, and `value_class` (n,).
        """
        subtree, node = np.unique(trees.subtree, return_index=True)
        if distinct is None:
            distinct = Distinct(subtree, trees.height[node], np.ones(len(subtree), dtype=bool))
        has_value = (targets.status[distinct.subtree] != UNKNOWN).any(1)
        is_mine = has_value & distinct.is_mine
        subtree, node = distinct.subtree[is_mine], node[np.searchsorted(subtree, distinct.subtree[is_mine])]
        arrays = {"node": node}
        if self.value and has_value.any():
            height = distinct.height[has_value]
            arrays |= {"value": targets.value[subtree], "status": targets.status[distinct.subtree[has_value]]}
            arrays |= {"weight": np.bincount(height)[height] ** -0.5, "mine": np.flatnonzero(distinct.is_mine[has_value])}
        if self.equivalence:
            chosen = self._choose_subtrees(targets.value_class[subtree], generator)
            arrays |= {"chosen": chosen, "value_class": targets.value_class[subtree[chosen]]}
        return arrays

    def loss(self, h: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted sum of the losses, a scalar. h: (M, H). tensors: those of `arrays`.

        They may be padded, with states of any node whose status is UNKNOWN and whose class is -1, and without `mine`.
        """
        loss = h.new_zeros(())
        if "value" in tensors:
            value, weight, mine = tensors["value"].to(h), tensors["weight"].to(h), tensors.get("mine", slice(None))
            loss = loss + self.value * self._value_loss(h, value, tensors["status"], weight, mine)
        if "chosen" in tensors:
            loss = loss + self.equivalence * self._equivalence_loss(h[tensors["chosen"]], tensors["value_class"])
        return loss

    def _choose_subtrees(self, value_class: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return indices of at most `rows` subtrees: first classes of several subtrees, then single ones."""
        order = generator.permutation(len(value_class))
        order = order[value_class[order] >= 0]
        _, class_of_row, sizes = np.unique(value_class[order], return_inverse=True, return_counts=True)
        rank_of_class = generator.permutation(len(sizes)) + np.where(sizes > 1, 0, len(sizes))
        return order[np.argsort(rank_of_class[class_of_row], kind="stable")][: self.rows]

    def _value_loss(self, h: Tensor, value: Tensor, status: Tensor, weight: Tensor, mine: Tensor | slice) -> Tensor:
        """Return the loss of values, or the part of it that belongs to M of the S distinct subtrees of a batch.

        h (M, H), value (M, P, 2): of these. status (S, P), weight (S,): of all. mine: (M,) indices of these among all.
        """
        predicted = self.predict_values(h)
        is_defined, is_known = (status == DEFINED).to(h), (status != UNKNOWN).to(h)
        all_defined, all_known = (is_defined * weight[:, None]).sum(), (is_known * weight[:, None]).sum()
        is_defined, is_known, weight = is_defined[mine], is_known[mine], weight[mine]
        distances = functional.smooth_l1_loss(predicted[..., :2], value, beta=BETA, reduction="none").mean(2)
        answers = functional.binary_cross_entropy_with_logits(predicted[..., 2], is_defined, reduction="none")
        of_defined, of_known = is_defined * weight[:, None], is_known * weight[:, None]
        distance = (distances * of_defined).sum() / all_defined.clamp(min=EPSILON)
        return distance + (answers * of_known).sum() / all_known.clamp(min=EPSILON)

    def _equivalence_loss(self, h: Tensor, value_class: Tensor) -> Tensor:
        directions = functional.normalize(h, dim=1)
        similarity = directions @ directions.t() / self.temperature
        others = ~torch.eye(len(h), dtype=torch.bool, device=h.device) & (value_class >= 0)
        equal = (value_class[:, None] == value_class) & others
        log_share = similarity - similarity.masked_fill(~others, -torch.inf).logsumexp(1, keepdim=True)
        counts = equal.sum(1)
        losses = -(log_share * equal).sum(1) / counts.clamp(min=1)
        return losses.sum() / (counts > 0).sum().clamp(min=1)
