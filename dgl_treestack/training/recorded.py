"""A training step that is recorded once and replayed for every batch: forward, loss, backward, norm, clip and optimizer.

Losses and counts stay on the device until they are read.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._torch import foreach_
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.model.recorded import Arrays, Generator, Prepared, Record, Recorded
from dgl_treestack.propagate.levels.static import Build
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.muon import MOMENTUM, SIZE, is_matrix, orthogonalise
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.truth.subtrees import Targets

UNREAD = 50  # steps until their counts are read


class RecordedOptimizer:
    """Adam or Muon of rows in operations that do not depend on the host: the rows of what a batch does not have are masked.

    parameters: of the model, stacks whole.
    """

    def __init__(self, optimizer: RowOptimizer, config: OptimizerConfig, model: Model, undecayed: Sequence[str]):
        self.config, self.keeps_zeros = config, optimizer.keeps_zeros
        names = {id(row): name for name, row in optimizer.rows.items()}
        # What a batch has or not: operators, and what is named by the prefix of a name.
        prefixes = ["cell.leaves.number", "", *(f"heads.{name}." for name in model.heads), "signals."]
        columns = [*model.signature.names, *prefixes]
        rows_of: list[tuple[Tensor, list[Tensor]]] = []
        needed: list[set[str]] = []  # names of which one must be present, by row
        for linear, stack, keys_and_rows in optimizer.stacks:
            rows_of.append((stack, [row for _, row in keys_and_rows]))
            for key, _ in keys_and_rows:
                needed.append({operator for operator, other in linear.keys.items() if other == key})
        in_stacks = {id(row) for _, rows in rows_of for row in rows}
        for row in optimizer.parameters:
            if id(row) not in in_stacks and row.requires_grad:
                rows_of.append((row, [row]))
                needed.append({max((prefix for prefix in prefixes if names[id(row)].startswith(prefix)), key=len)})
        self.rows = rows = [row for _, group in rows_of for row in group]
        self.parameters = [parameter for parameter, _ in rows_of]
        device = rows[0].device
        needs = [[float(name in names_of_row) for name in columns] for names_of_row in needed]
        self.needs = torch.tensor(needs, device=device)
        self.sizes = [row.numel() for row in rows]
        self.row = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(self.sizes)).to(device)
        decays = [0.0 if names[id(row)] in undecayed else config.weight_decay for row in rows]
        self.matrices: dict[tuple[torch.Size, float], list[int]] = {}  # of Muon, by shape and weight decay: indices of rows
        blends = [1 - config.beta1] * len(rows)
        for i, row in enumerate(rows):
            if config.method == "muon" and is_matrix(row) and not names[id(row)].startswith("cell.leaves."):
                self.matrices.setdefault((row.shape, decays[i]), []).append(i)
                decays[i], blends[i] = 0.0, 1 - MOMENTUM
        self.decay, self.blend = torch.tensor([decays, blends], dtype=rows[0].dtype, device=device)
        self.steps = torch.zeros(len(rows), device=device)
        self.moments = [torch.zeros(sum(self.sizes), dtype=rows[0].dtype, device=device) for _ in range(2)]

    def adopt(self, optimizer: RowOptimizer) -> None:
        """Take over the state of an optimizer, which shares it from then on."""
        of_muon = {i for chosen in self.matrices.values() for i in chosen}
        parts = zip(self.rows, self.steps.unbind(), *(moment.split(self.sizes) for moment in self.moments), strict=True)
        for i, (row, step, first, second) in enumerate(parts):
            state = optimizer.optimizer.state[row]
            of_row = {"step": step, "exp_avg": first.view(row.shape), "exp_avg_sq": second.view(row.shape)}
            if i in of_muon:
                step.fill_("momentum" in state)
                of_row = {"momentum": of_row["exp_avg"]}
            for kind, part in of_row.items():
                if kind in state:
                    part.copy_(state[kind])
                state[kind] = part
        optimizer.recorded = self.rows, self.steps

    def update_rows(self, rate: float) -> None:
        """Update the rows that have a gradient, after a step that was not recorded."""
        gradients = [row.grad for row in self.rows]
        is_used = torch.tensor([gradient is not None for gradient in gradients]).to(self.needs.device, non_blocking=True)
        self.update(flat(gradients, self.rows), is_used | self._kept(), torch.tensor(rate, dtype=torch.float64))

    @torch.no_grad()
    def update(self, gradient: Tensor, is_used: Tensor, rate: Tensor) -> None:
        """Update rows. gradient: of all rows. is_used: (rows,) whether each is updated. rate: the learning rate, a scalar."""
        config, (first, second) = self.config, self.moments
        self.steps += is_used
        steps = self.steps.double()
        scale1 = (rate / (1 - config.beta1**steps)).to(first.dtype)
        scale2 = (1 - config.beta2**steps).sqrt().to(first.dtype)
        of_rows = is_used, scale1, scale2, self.decay, self.blend
        is_used, scale1, scale2, decay, blend = (values[self.row] for values in of_rows)
        values = torch.cat([parameter.flatten() for parameter in self.parameters])
        decayed = torch.addcmul(gradient, values, decay)
        first.copy_(torch.where(is_used, first.lerp(decayed, blend), first))
        mean_square = (second * config.beta2).addcmul_(decayed, decayed, value=1 - config.beta2)
        second.copy_(torch.where(is_used, mean_square, second))
        updated = values - first * scale1 / ((second.sqrt() / scale2).add_(config.epsilon))
        if self.matrices:
            updated = self._by_muon(gradient, first, values, updated, rate)
        parts = torch.where(is_used, updated, values).split([parameter.numel() for parameter in self.parameters])
        foreach_("copy_", self.parameters, [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)])

    def _by_muon(self, gradient: Tensor, momentum: Tensor, values: Tensor, updated: Tensor, rate: Tensor) -> Tensor:
        """Return the updated values of all rows, those of matrices by Muon."""
        rows = [vector.split(self.sizes) for vector in (gradient, momentum, values)]
        results = list(updated.split(self.sizes))
        for (shape, decay), chosen in self.matrices.items():
            gradients, momenta, matrices = (torch.stack([parts[i].view(shape) for i in chosen]) for parts in rows)
            update = SIZE * math.sqrt(max(shape)) * rate * orthogonalise(gradients.lerp(momenta, MOMENTUM))
            for i, matrix in zip(chosen, (matrices * (1 - rate * decay) - update).unbind(), strict=True):
                results[i] = matrix.flatten()
        return torch.cat(results)

    def used(self, present: Tensor) -> Tensor:
        """Return which rows a batch updates (rows,). present: (columns,) 1 for what it has."""
        return (self.needs @ present.to(self.needs) > 0) | self._kept()

    def _kept(self) -> Tensor:
        """Whether a row has a gradient of zeros, if it has no other."""
        return (self.steps > 0) & self.keeps_zeros


def flat(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """Return the numbers of tensors as one vector, zeros in place of None."""
    return torch.cat([(torch.zeros_like(b) if a is None else a).flatten() for a, b in zip(tensors, like, strict=True)])


class RecordedStep(Recorded):
    """Training steps, recorded.

    samples: positions in the training set of the examples of some batches. loss: of a batch, from the losses of its outputs and
    the positions of their examples; outputs of the padding have a loss of 0, and the result is multiplied by the share of all
    others. targets: of losses at nodes. record: see `Record`. build: compiles a cell's steps, None for eager ones.
    """

    def __init__(
        self,
        model: Model,
        optimizer: RowOptimizer,
        config: OptimizerConfig,
        dataset: Dataset,
        samples: Sequence[np.ndarray],
        loss: Callable[[Tensor, Tensor], Tensor],
        undecayed: Sequence[str],
        *,
        record: Record,
        targets: Targets | None = None,
        build: Build | None = None,
    ):
        self.loss, self.clip, self.targets = loss, config.clip, targets
        self.model = model
        arrays = [self._arrays(batch) for batch in dataset.batches_of(samples)]
        self.arrays = Arrays(arrays)
        super().__init__(model, dataset, samples, {"rate": 1, **self.arrays.sizes()})
        self.compile(build, samples[0])
        self.optimizer = RecordedOptimizer(optimizer, config, model, undecayed)
        self.totals = torch.zeros(5, dtype=torch.float64, device=self.device)  # loss, outputs, correct ones, steps, first fault
        self.record(record, self._step)  # of no outputs: the loss is no number, so that nothing changes
        self.totals.zero_()
        self.optimizer.adopt(optimizer)

    def _arrays(self, batch: Batch, generator: Generator = None) -> dict[str, np.ndarray]:
        """What the losses at nodes read of a batch."""
        if self.model.signals is None or self.targets is None:
            return {}
        arrays = self.model.signals.arrays(batch.trees, self.targets, generator or np.random.default_rng(0))
        return {name: array for name, array in arrays.items() if name != "mine"}

    def fill(self, part: Mapping[str, np.ndarray], batch: Batch, generator: Generator) -> bool:
        arrays = self._arrays(batch, generator)
        part["used"][-1] = "value" in arrays
        has_others = len(arrays.get("chosen", "12")) > 1  # or the loss of equivalence is no number
        return has_others and self.arrays.fill(part, arrays)

    def __call__(self, prepared: Prepared, rate: float) -> None:
        """Train a step with a batch from `indices`. rate: the learning rate."""
        self.plans[prepared.plan].split(prepared.content)["rate"].view(torch.float64).fill_(rate)
        self.replay(prepared)

    def read(self) -> list[float]:
        """Return, since the last call, the sum of losses, outputs, correct ones, steps, and the first faulty step or 0."""
        totals = self.totals.tolist()
        self.totals.zero_()
        return totals

    def _step(self, number: int) -> None:
        """The operations of a step."""
        model, part, optimizer = self.model, self.plans[number].part, self.optimizer
        h = self.node_states(number)
        outputs = [(model.outputs(h, batch), batch) for batch in self.batches[number]]
        weights = part["weights"].view(torch.float64)
        losses = torch.cat([model.losses(*of_head) for of_head in outputs])
        losses = losses * weights.to(losses)
        loss = self.loss(losses, part["positions"]) * (len(weights) / weights.sum()).to(losses)
        if model.signals is not None and (at_nodes := self.arrays.tensors(part)):
            loss = loss + model.signals.loss(h(at_nodes["node"]), at_nodes)
        gradients = torch.autograd.grad(loss, optimizer.parameters, allow_unused=True)
        gradient = flat(gradients, optimizer.parameters)
        norm = torch.linalg.vector_norm(gradient)
        is_finite = torch.isfinite(norm) & torch.isfinite(loss.detach())
        if self.clip:
            gradient *= (self.clip / norm).clamp(max=1)
        is_used = optimizer.used(torch.cat([part["present"], part["used"]])) & is_finite
        optimizer.update(gradient, is_used, part["rate"].view(torch.float64)[0])
        correct = torch.cat([model.correct(output.detach(), batch) for output, batch in outputs]) * weights
        counts = torch.stack([losses.detach().double().sum(), weights.sum(), correct.sum(), torch.ones_like(weights[0])])
        self.totals[:4] += counts
        is_first_fault = ~is_finite & (self.totals[4] == 0)
        self.totals[4].copy_(torch.where(is_first_fault, self.totals[3], self.totals[4]))
