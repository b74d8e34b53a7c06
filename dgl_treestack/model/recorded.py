"""What a model computes of a batch, recorded once and replayed for every batch: on a GPU, as a CUDA graph.

A GPU waits for Python, which starts some 700 operations in a training step of Tree-SMU. They are recorded for batches padded to
a fixed shape. A batch is then one copy, prepared ahead in a thread, and one call. A batch that does not fit is computed as
without a record.
"""

import itertools
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.data.forest import columns, in_order_of_appearance, size
from dgl_treestack.model.dataset import MOST_KEPT, Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.propagate import States, compute_static, noise_of_nodes
from dgl_treestack.propagate.levels.plan import number_rows
from dgl_treestack.propagate.levels.static import Build, Parts, StaticPlan, capacity
from dgl_treestack.sequence._tokens import Trees
from dgl_treestack.sequence.encoders import Encoder
from dgl_treestack.tasks import NodeStates

AHEAD = 4  # batches that are prepared ahead
SAMPLES = 20  # batches of which capacities are measured
PADDING = {"lengths": 1, "paths": -1, "value_class": -1}  # of arrays by name, in place of zeros
BUCKETS = 6  # shapes of sequences, at most
MOST_PADDING = 16  # ratio of padded to real tokens; plain steps group sequences by length from 4 on, and wait for Python
Made = TypeVar("Made")
Record = Callable[[Callable[[], None]], Callable[[], object]]  # runs a function, and returns one that repeats its operations
Generator: TypeAlias = np.random.Generator | None
logger = logging.getLogger(__name__)


def recorder(device: torch.device) -> Record | None:
    """Return what records operations on a device, None if they are not recorded there."""
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


def attempt(device: torch.device, what: str, make: Callable[..., Made], fault: str = "") -> Made | None:
    """Return what a function makes of the recorder of a device; None where there is none.

    With a fault, or if the function raises RuntimeError, None and a warning. what: is slower then, for the warning.
    """
    record = recorder(device)
    try:
        if record is not None and fault:
            raise RuntimeError(fault)
        return None if record is None else make(record=record)
    except RuntimeError as error:
        _warn(what, str(error).partition("\n")[0])
    return None


@cache
def _warn(what: str, fault: str) -> None:
    """Log once why something is not recorded."""
    logger.warning("%s without a CUDA graph, which is slower: %s", what, fault)


def room(counts: np.ndarray) -> int:
    """Return the capacity for counts of some batches, with a margin unless all are equal."""
    return int(counts.max()) if (counts == counts[0]).all() else capacity(int(counts.max()))


class Arrays:
    """Arrays of a batch as parts of a buffer, padded to the largest of some samples.

    shapes: by name; PADDING or zeros are beyond the arrays of a batch.
    """

    def __init__(self, samples: Sequence[Mapping[str, np.ndarray]]):
        any_batch = {name: array for arrays in samples for name, array in arrays.items()}
        self.reals = {name for name, array in any_batch.items() if array.dtype.kind == "f"}
        shapes = {name: [arrays.get(name, like[:0]).shape for arrays in samples] for name, like in any_batch.items()}
        self.shapes = {name: tuple(room(np.array(sizes)) for sizes in zip(*of, strict=True)) for name, of in shapes.items()}

    def sizes(self) -> dict[str, int]:
        return {name: math.prod(shape) for name, shape in self.shapes.items()}

    def fill(self, part: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]) -> bool:
        """Fill the parts; return whether the arrays fit."""
        for name, array in arrays.items():
            shape = self.shapes.get(name, (0,))
            if any(count > most for count, most in zip(array.shape, shape, strict=False)):
                return False
            padded = part[name].view(np.float64 if name in self.reals else np.int64).reshape(shape)
            padded[:] = PADDING.get(name, 0)
            padded[tuple(slice(count) for count in array.shape)] = array
        return True

    def tensors(self, part: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the parts as arrays."""
        dtype = {name: torch.float64 if name in self.reals else torch.int64 for name in self.shapes}
        return {name: part[name].view(dtype[name]).view(shape) for name, shape in self.shapes.items()}


class SequencePlan(Parts):
    """Sequences padded to fixed shapes: what `Encoder.written` returns, and `row`, by node, the index of its sequence."""

    def __init__(self, samples: Sequence[dict[str, np.ndarray]], length: int, further: dict[str, int], device: torch.device):
        self.arrays = Arrays(samples)
        shapes = self.arrays.shapes
        shapes |= {name: (shape[0], length, *shape[2:]) for name, shape in shapes.items() if len(shape) > 1}
        super().__init__({**self.arrays.sizes(), **further}, device)

    def indices(self, written: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return the content of the buffer for a batch, None if the batch does not fit."""
        content = np.zeros(len(self.buffer), dtype=np.int64)
        part = self.split(content)
        part["present"][-1] = 1
        is_padding = len(part["tokens"]) > MOST_PADDING * written["lengths"].sum()
        return None if is_padding or not self.arrays.fill(part, written) else content


class Prepared(NamedTuple):
    """A batch for a record: the number of the plan that it fits, the content of its buffer on the host, and its outputs."""

    plan: int
    content: Tensor
    outputs: int


class Recorded:
    """Operations on batches of a model, recorded for one shape, or, for an encoder, for a few lengths of sequences.

    samples: positions in the data set of the examples of some batches, of which capacities are the maxima with a margin.
    further: names and sizes of parts of the buffer that are a subclass's. Raises RuntimeError if batches would not fit.
    Attributes: `counts`, the outputs of every head, with padding, which are neighbours; `outputs`, their sum.
    """

    def __init__(self, model: Model, dataset: Dataset, samples: Sequence[np.ndarray], further: Mapping[str, int] | None = None):
        self.model, self.dataset, self.heads = model, dataset, list(model.heads.values())
        self.device = next(model.parameters()).device
        self.is_random = model.training and bool(model.cell.dropout)
        self.is_seeded = self.is_random and isinstance(model.cell, Encoder)  # which draws dropout from torch's generator
        batches = list(dataset.batches_of(samples))
        self.counts = [room(np.array([(batch.task == i).sum() for batch in batches])) for i in range(len(self.heads))]
        self.outputs = sum(self.counts)
        sizes = dict.fromkeys(("roots", "targets", "weights", "positions", "place"), self.outputs)
        sizes |= {"sides": 2 * self.outputs, "used": len(self.heads) + 1, "key": 1, **(further or {})}
        rows = [self._rows(batch) for batch in batches]
        self.plans = self._plans(rows, sizes)
        if 2 * sum(any(plan.indices(of_batch) is not None for plan in self.plans) for of_batch in rows) < len(rows):
            raise RuntimeError("The sequences of a batch differ so much in length that most of the work would be padding.")
        self.batches = [self._batches(plan.part, batches[0]) for plan in self.plans]
        self.replays: list[Callable[[], object]] = []

    def _plans(self, rows: list[Any], sizes: dict[str, int]) -> list[Any]:
        """The plans, shorter sequences first."""
        model = self.model
        if not isinstance(model.cell, Encoder):
            return [StaticPlan(rows, model.cell, model.signature, self.device, sizes)]
        if not all(head.is_ours() for head in self.heads):
            raise RuntimeError("A task of your own may read any node, and which ones an encoder reads is known before.")
        lengths = np.array([written["tokens"].shape[1] for written in rows])
        shorter = 8 * np.ceil(np.quantile(lengths, np.arange(1, BUCKETS) / BUCKETS) / 8)
        sizes["present"] = len(model.signature.names) + 2
        buckets = sorted({capacity(lengths.max()), *shorter.astype(int).tolist()})
        return [SequencePlan(rows, length, sizes, self.device) for length in buckets]

    def _batches(self, part: Mapping[str, Tensor], like: Batch) -> list[Batch]:
        """The outputs of every head that has any, as parts of a buffer."""
        outputs = part["roots"], part["sides"].view(-1, 2), part["targets"].view(torch.float64)
        of_heads = enumerate(zip(*(values.split(self.counts) for values in outputs), strict=True))
        return [
            Batch(like.trees, roots, sides, targets, np.full(len(roots), task), like.plans)
            for task, (roots, sides, targets) in of_heads
            if len(roots)
        ]

    def _rows(self, batch: Batch) -> Any:
        """What a plan needs to know of a batch."""
        model, nodes = self.model, columns(batch.trees, self.model.signature)
        if not isinstance(model.cell, Encoder):
            is_shared = not self.is_random or model.masks == "subtree"
            return number_rows(nodes, model.signature, shared=is_shared)
        reads_sides = np.array([head.compares_sides for head in self.heads])[batch.task]
        read = np.concatenate([batch.sides.numpy()[reads_sides].ravel(), batch.roots.numpy()[~reads_sides]])
        tops, position = model.cell.distinct(nodes, read)
        row = np.zeros(size(batch.trees), dtype=np.int64)
        row[read] = position
        written = model.cell.written(Trees.below(nodes, tops, model.cell.leaves))
        return dict(zip(("row", "tokens", "lengths", "paths"), (row, *written), strict=False))

    def compile(self, build: Build | None, positions: np.ndarray) -> None:
        """Compile the steps of a tree cell, unless they then give other numbers for a batch. build: see `StaticPlan`."""
        prepared = self.indices(positions)
        if build is None or prepared is None or isinstance(self.model.cell, Encoder):
            return
        (plan,) = self.plans
        plan.build = build
        plan.buffer.copy_(prepared.content)
        with torch.enable_grad():
            self.node_states(0)
        plan.buffer.zero_()

    def record(self, record: Record, step: Callable[[int], None]) -> None:
        """Record a function of the number of a plan, for each, with buffers of zeros: a batch without outputs."""
        with self._kept_generator():
            self.replays = [record(partial(step, number)) for number in range(len(self.plans))]

    def _kept_generator(self) -> AbstractContextManager[None]:
        """A context after which torch's generator is as before."""
        return torch.random.fork_rng([self.device] if self.device.type == "cuda" else [], enabled=self.is_seeded)

    def indices(self, positions: np.ndarray, key: int = 0, generator: Generator = None) -> Prepared | None:
        """Return a batch, prepared on the host; None if it does not fit. key: of its dropout. generator: see `fill`."""
        (batch,) = self.dataset.batches_of([positions])
        counts, rows = np.bincount(batch.task, minlength=len(self.heads)), self._rows(batch)
        contents = enumerate(plan.indices(rows) for plan in self.plans)
        number, content = next(((number, content) for number, content in contents if content is not None), (0, None))
        if content is None or (counts > self.counts).any():
            return None
        part, order, place = self.plans[number].split(content), batch.task.argsort(kind="stable"), np.arange(len(batch.task))
        first_places = np.cumsum([0, *self.counts[:-1]]) - (counts.cumsum() - counts)
        place[order] = np.arange(len(order)) + np.repeat(first_places, counts)
        part["roots"][place], part["sides"].reshape(-1, 2)[place] = batch.roots.numpy(), batch.sides.numpy()
        part["targets"].view(np.float64)[place], part["weights"].view(np.float64)[place] = batch.targets.numpy(), 1
        part["positions"][place] = self.dataset.positions_of_outputs(positions).numpy()
        part["place"][: len(place)], part["used"][: len(counts)], part["key"][:] = place, counts > 0, key
        if "ids" in part and self.model.masks == "subtree":
            ids = in_order_of_appearance(batch.trees.subtree)
            part["ids"][: len(ids)] = ids
        if not self.fill(part, batch, generator):
            return None
        host = torch.from_numpy(content)
        return Prepared(number, host.pin_memory() if self.device.type == "cuda" else host, len(place))

    def fill(self, part: Mapping[str, np.ndarray], batch: Batch, generator: Generator) -> bool:
        """Fill further parts for a batch; return whether it fits. generator: of what is drawn on the host."""
        return True

    def prepare(
        self, chosen: Iterable[np.ndarray], draws: Iterable[tuple[int, Generator]] = itertools.repeat((0, None))
    ) -> Iterator[Prepared | None]:
        """Yield what `indices` returns for every batch, ahead of its use, in a thread. draws: its further arguments."""
        with ThreadPoolExecutor(1) as thread:
            waiting: deque[Future[Prepared | None]] = deque()
            for positions, of_batch in zip(chosen, draws, strict=False):
                waiting.append(thread.submit(self.indices, positions, *of_batch))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def replay(self, prepared: Prepared) -> None:
        """Repeat what was recorded, for a batch."""
        plan = self.plans[prepared.plan]
        plan.buffer.copy_(prepared.content, non_blocking=True)
        with self._kept_generator():
            if self.is_seeded:
                torch.manual_seed(int(plan.split(prepared.content)["key"]))
            self.replays[prepared.plan]()

    def node_states(self, number: int) -> NodeStates:
        """Return a function from indices of nodes of the batch that a plan has to their states."""
        cell, plan = self.model.cell, self.plans[number]
        part = plan.part
        if isinstance(cell, Encoder):
            row, *written = plan.arrays.tensors(part).values()
            return partial(States({"h": cell.read(*written, fixed=True)}, row).of, "h")
        noise = noise_of_nodes(cell, part["ids"], part["key"][0]) if self.is_random else {}
        return partial(compute_static(plan, cell, noise=noise).of, "h")


def results(model: Model, output: Tensor, batch: Batch, *, scored: bool) -> tuple[Tensor, Tensor]:
    """Return the losses of outputs, or else the outputs, and 1 for a correct output, else 0."""
    return model.losses(output, batch) if scored else output, model.correct(output, batch)


class RecordedResults(Recorded):
    """The results of a model in evaluation mode for batches of a data set, in order, see `results`.

    chosen: positions of the examples of the batches, of which those that do not fit are not recorded.
    """

    def __init__(self, model: Model, dataset: Dataset, chosen: Sequence[np.ndarray], *, scored: bool, record: Record):
        samples = [chosen[i] for i in np.unique(np.linspace(0, len(chosen) - 1, SAMPLES).astype(int))]
        super().__init__(model.eval(), dataset, samples)
        self.chosen, self.scored = chosen, scored
        self.values: dict[int, tuple[Tensor, ...]] = {}
        self.kept = list(self.prepare(chosen)) if len(dataset.forest.nodes) <= MOST_KEPT else None
        self.record(record, self._step)

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Yield the results of every batch."""
        self.model.eval()
        for positions, prepared in zip(self.chosen, self.kept or self.prepare(self.chosen), strict=True):
            if prepared is None:
                batch = self.dataset.batch(positions, self.device)
                yield results(self.model, self.model(batch), batch, scored=self.scored)
            else:
                self.replay(prepared)
                yield tuple([values[: prepared.outputs].clone() for values in self.values[prepared.plan]])

    @torch.no_grad()
    def _step(self, number: int) -> None:
        h, place = self.node_states(number), self.plans[number].part["place"]
        outputs = [(self.model.outputs(h, batch), batch) for batch in self.batches[number]]
        of_heads = [results(self.model, *of_head, scored=self.scored) for of_head in outputs]
        self.values[number] = tuple([torch.cat(values)[place] for values in zip(*of_heads, strict=True)])
