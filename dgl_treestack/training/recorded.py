"""A training step that is recorded once and replayed for every batch: on a GPU, as a CUDA graph.

A GPU waits for Python, which starts some 700 operations in a step of Tree-SMU. Forward, loss, backward, norm, clip and Adam are
recorded with a plan of fixed shape. A batch is then one copy, prepared ahead in a thread, and one call; losses and counts stay
on the device until they are read. A batch that does not fit, such as the last one of an epoch, is computed step by step.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dgl_treestack._torch import foreach_
from dgl_treestack.data.forest import columns, in_order_of_appearance
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import Plans, compute_static, draw_key, noise_of_nodes
from dgl_treestack.propagate.levels.plan import BatchRows, number_rows
from dgl_treestack.propagate.levels.static import MARGIN, Build, StaticPlan
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.optimizer import RowOptimizer

AHEAD = 4  # batches that are prepared ahead
SAMPLES = 20  # batches of which capacities are measured
UNREAD = 50  # steps until their counts are read
Record = Callable[[Callable[[], None]], Callable[[], object]]  # runs a function, and returns one that repeats its operations


def recorder(device: torch.device) -> Record | None:
    """Return what records steps on a device, None if steps are not recorded there."""
    return cuda_graph if device.type == "cuda" else None


def cuda_graph(step: Callable[[], None]) -> Callable[[], object]:
    """Record a function as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # libraries allocate at their first calls
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


class RecordedAdam:
    """Adam of rows in operations that do not depend on the host: the rows of absent operators are masked.

    The state is that of the `RowOptimizer`, whose tensors become parts of one tensor each.
    parameters: of the model, stacks whole. present: (operators + 2,) 1 for the operators of a batch, for numbers, and 1.
    """

    def __init__(self, optimizer: RowOptimizer, config: OptimizerConfig, operators: Sequence[str], undecayed: Sequence[str]):
        self.config, self.keeps_zeros = config, optimizer.keeps_zeros
        names = {id(row): name for name, row in optimizer.rows.items()}
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
                needed.append({"number" if names[id(row)].startswith("cell.leaves.number") else "always"})
        self.rows = rows = [row for _, group in rows_of for row in group]
        self.parameters = [parameter for parameter, _ in rows_of]
        device, columns = rows[0].device, [*operators, "number", "always"]
        needs = [[float(name in names_of_row) for name in columns] for names_of_row in needed]
        self.needs = torch.tensor(needs, device=device)
        sizes = torch.tensor([row.numel() for row in rows])
        self.row = torch.repeat_interleave(torch.arange(len(rows)), sizes).to(device)
        decay = [0.0 if names[id(row)] in undecayed else config.weight_decay for row in rows]
        self.decay = torch.tensor(decay, dtype=rows[0].dtype, device=device)
        self.steps = torch.zeros(len(rows), device=device)
        self.moments = [torch.zeros(int(sizes.sum()), dtype=rows[0].dtype, device=device) for _ in range(2)]
        parts = zip(rows, self.steps.unbind(), *(moment.split(sizes.tolist()) for moment in self.moments), strict=True)
        for row, *tensors in parts:
            state = optimizer.optimizer.state[row]
            for kind, part in zip(("step", "exp_avg", "exp_avg_sq"), tensors, strict=True):
                part = part.view(row.shape if part.dim() else ())
                if kind in state:
                    part.copy_(state[kind])
                state[kind] = part

    def update_rows(self, rate: float) -> None:
        """Update the rows that have a gradient, after a step that was not recorded."""
        gradients = [row.grad for row in self.rows]
        is_used = torch.tensor([gradient is not None for gradient in gradients]).to(self.needs.device, non_blocking=True)
        self.update(flat(gradients, self.rows), is_used | self._kept(), torch.tensor(rate))

    @torch.no_grad()
    def update(self, gradient: Tensor, is_used: Tensor, rate: Tensor) -> None:
        """Update rows. gradient: of all rows. is_used: (rows,) whether each is updated. rate: the learning rate, a scalar."""
        config, (first, second) = self.config, self.moments
        self.steps += is_used
        steps = self.steps.double()
        scale1 = (rate / (1 - config.beta1**steps)).to(first.dtype)
        scale2 = (1 - config.beta2**steps).sqrt().to(first.dtype)
        is_used, scale1, scale2, decay = (values[self.row] for values in (is_used, scale1, scale2, self.decay))
        values = torch.cat([parameter.flatten() for parameter in self.parameters])
        gradient = torch.addcmul(gradient, values, decay)
        first.copy_(torch.where(is_used, first.lerp(gradient, 1 - config.beta1), first))
        mean_square = (second * config.beta2).addcmul_(gradient, gradient, value=1 - config.beta2)
        second.copy_(torch.where(is_used, mean_square, second))
        updated = values - first * scale1 / ((second.sqrt() / scale2).add_(config.epsilon))
        parts = torch.where(is_used, updated, values).split([parameter.numel() for parameter in self.parameters])
        foreach_("copy_", self.parameters, [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)])

    def used(self, present: Tensor) -> Tensor:
        """Return which rows a batch updates (rows,). present: (operators + 2,), see `StaticPlan`."""
        return (self.needs @ present.to(self.needs) > 0) | self._kept()

    def _kept(self) -> Tensor:
        """Whether a row has a gradient of zeros, if it has no other."""
        return (self.steps > 0) & self.keeps_zeros


def flat(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """Return the numbers of tensors as one vector, zeros in place of None."""
    return torch.cat([(torch.zeros_like(b) if a is None else a).flatten() for a, b in zip(tensors, like, strict=True)])


class RecordedStep:
    """Training steps of batches with as many outputs as those that it was recorded for, or padded to more.

    samples: positions in the training set of the examples of some batches. loss: of a batch, from the losses of its outputs and
    the positions of their examples. record: see `Record`. build: compiles a cell's steps, None for eager ones.
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
        build: Build | None = None,
    ):
        self.model, self.dataset, self.loss, self.clip = model, dataset, loss, config.clip
        self.device = next(model.parameters()).device
        batches = list(dataset.batches_of(samples))
        outputs = [len(batch.roots) for batch in batches]
        self.size = len(samples[0])
        self.outputs = max(outputs) if len(set(outputs)) == 1 else int(max(outputs) * MARGIN)
        further = dict.fromkeys(("roots", "targets", "weights", "positions"), self.outputs)
        further |= {"sides": 2 * self.outputs, "key": 1, "rate": 1}
        rows = [self._rows(batch) for batch in batches]
        self.static = StaticPlan(rows, model.tree_cell, model.signature, self.device, further)
        self.static.build = build
        part = self.static.part
        targets = part["targets"].view(torch.float64)
        sides = part["sides"].view(-1, 2)
        task = np.zeros(self.outputs, dtype=np.int64)
        self.batch = Batch(batches[0].trees, part["roots"], sides, targets, task, Plans(model.signature))
        self.adam = RecordedAdam(optimizer, config, model.signature.names, undecayed)
        self.totals = torch.zeros(5, dtype=torch.float64, device=self.device)  # loss, outputs, correct ones, steps, first fault
        host = self.indices(samples[0], 0)
        if host is None:
            raise RuntimeError("A sample does not fit the capacities that were measured on it.")
        self.static.buffer.copy_(host)
        tensors = [*self.adam.parameters, *self.adam.moments, self.adam.steps, self.totals]
        saved = [tensor.detach().clone() for tensor in tensors]
        self.replay = record(self._step)
        with torch.no_grad():
            foreach_("copy_", tensors, saved)  # recording is no training

    def indices(self, positions: np.ndarray, key: int) -> Tensor | None:
        """Return the buffer of a batch, on the host; None if the batch does not fit. key: of its dropout."""
        if len(positions) != self.size:
            return None
        (batch,) = self.dataset.batches_of([positions])
        content, count = self.static.indices(self._rows(batch)), len(batch.roots)
        if content is None or count > self.outputs:
            return None
        part = self.static.split(content)
        part["roots"][:count], part["sides"][: 2 * count] = batch.roots.numpy(), batch.sides.numpy().ravel()
        part["targets"].view(np.float64)[:count] = batch.targets.numpy()
        part["weights"].view(np.float64)[:count] = 1
        part["positions"][:count] = self.dataset.positions_of_outputs(positions).numpy()
        part["key"][:] = key
        if self.model.masks == "subtree":
            ids = in_order_of_appearance(batch.trees.subtree)
            part["ids"][: len(ids)] = ids
        host = torch.from_numpy(content)
        return host.pin_memory() if self.device.type == "cuda" else host

    def prepare(self, chosen: Iterable[np.ndarray], generators: Iterable[torch.Generator]) -> Iterator[Tensor | None]:
        """Yield what `indices` returns for every batch, ahead of its use, in a thread. generators: of the keys of dropout."""
        with ThreadPoolExecutor(1) as thread:
            waiting: deque[Future[Tensor | None]] = deque()
            for positions, generator in zip(chosen, generators, strict=False):
                waiting.append(thread.submit(self.indices, positions, draw_key(generator)))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def __call__(self, host: Tensor, rate: float) -> None:
        """Train a step with a batch from `indices`. rate: the learning rate."""
        self.static.split(host)["rate"].view(torch.float64).fill_(rate)
        self.static.buffer.copy_(host, non_blocking=True)
        self.replay()

    def read(self) -> list[float]:
        """Return, since the last call, the sum of losses, outputs, correct ones, steps, and the first faulty step or 0."""
        totals = self.totals.tolist()
        self.totals.zero_()
        return totals

    def _rows(self, batch: Batch) -> BatchRows:
        is_shared = not self.model.cell.dropout or self.model.masks == "subtree"
        return number_rows(columns(batch.trees, self.model.signature), self.model.signature, shared=is_shared)

    def _step(self) -> None:
        """The operations of a step."""
        model, part, cell = self.model, self.static.part, self.model.tree_cell
        noise = noise_of_nodes(cell, part["ids"], part["key"][0]) if cell.dropout else {}
        h = partial(compute_static(self.static, cell, noise=noise).of, "h")
        output = model.outputs(h, self.batch)
        weights = part["weights"].view(torch.float64)
        losses = model.losses(output, self.batch) * weights.to(output)
        loss = self.loss(losses, part["positions"]) * (len(weights) / weights.sum()).to(output)
        gradients = torch.autograd.grad(loss, self.adam.parameters, allow_unused=True)
        gradient = flat(gradients, self.adam.parameters)
        norm = torch.linalg.vector_norm(gradient)
        is_finite = torch.isfinite(norm) & torch.isfinite(loss.detach())
        if self.clip:
            gradient *= (self.clip / norm).clamp(max=1)
        is_used = self.adam.used(part["present"]) & is_finite
        self.adam.update(gradient, is_used, part["rate"].view(torch.float64)[0])
        correct = model.correct(output.detach(), self.batch) * weights
        counts = torch.stack([losses.detach().double().sum(), weights.sum(), correct.sum(), torch.ones_like(weights[0])])
        self.totals[:4] += counts
        is_first_fault = ~is_finite & (self.totals[4] == 0)
        self.totals[4].copy_(torch.where(is_first_fault, self.totals[3], self.totals[4]))
