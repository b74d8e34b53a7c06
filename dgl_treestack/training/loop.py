"""The training loop, plain torch, resumable with identical results. Over several processes the results are those of one, but
for dropout, see `dgl_treestack.distributed`.

What is learned is an `Objective`: trees, a text, streams. Randomness is a function of seed, epoch and step, or in the
objective's state, so the state of a run is its weights, that of the objective and the small `Progress`. They are saved
together, at every epoch, every `checkpoint_steps` steps and on a signal.
"""

import dataclasses
import gc
import json
import logging
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm

from dgl_treestack import atomic, plain_data
from dgl_treestack._torch import subnormals_as_zero
from dgl_treestack.distributed import ALONE, World
from dgl_treestack.errors import CheckpointError
from dgl_treestack.processes import Interrupted, Watch, watch_signals
from dgl_treestack.runs.weights import load_into, read_weights, write_weights
from dgl_treestack.training.objective import Objective, Progress

Checkpoint = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and description, as `read_weights` returns them
OnEpoch = Callable[[dict[str, Any], Any], object]  # called with a row of metrics.jsonl and the model after that epoch
logger = logging.getLogger(__name__)
_SILENT = logging.Logger("other processes of a run", logging.CRITICAL + 1)


class Training:
    """Training of one run folder: `train` finishes it, or raises Interrupted.

    checkpoint, times: what an earlier process has left, None and nothing for a new run. on_epoch: see `start`. world: the
    processes that train it together, of which the first alone reads and writes the run folder. started: CPU time of the process
    at the start. Raises CheckpointError.
    """

    def __init__(
        self,
        objective: Objective,
        checkpoint: Checkpoint | None,
        times: list[dict[str, Any]],
        *,
        quiet: bool = False,
        on_epoch: OnEpoch | None = None,
        world: World = ALONE,
        started: float = 0.0,
    ):
        self.objective, self.run, self.model, self.world = objective, objective.run, objective.model, world
        self.started, self.earlier_times = started, times
        self.on_epoch = on_epoch if world.is_first else None
        self.log = logging.LoggerAdapter(logger if world.is_first else _SILENT, {"run": self.run.folder.name})
        self.quiet = quiet or not world.is_first
        self.progress = self._restored(*checkpoint) if checkpoint else Progress(objective.learning_rate)

    def _restored(self, tensors: dict[str, Tensor], description: dict[str, Any]) -> Progress:
        """Restore the objective and its model from the run's checkpoint and return the progress. Raises CheckpointError."""
        objective, path, device = self.objective, self.run.last, next(self.model.parameters()).device
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "objective": {}}
        try:
            for name, tensor in tensors.items():
                part, _, key = name.partition("/")
                parts[part][key] = tensor.to(device)
            # A number that is not finite would go on into every later checkpoint.
            json.dumps(description, allow_nan=False)  # ValueError for a number that is not finite
            progress = plain_data.build(Progress, description["progress"])
            load_into(self.model, parts["model"], path, finite=not objective.may_diverge)
            if progress.step:
                objective.begin_epoch(progress.epoch)
            objective.restore(parts["objective"], description["objective"])
        except CheckpointError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise CheckpointError(f"{path} is no checkpoint of a training ({error!r}). Train again.") from None
        return progress

    def train(self) -> None:
        """Train to the last epoch, evaluate with the best weights, write DONE."""
        progress, schedule = self.progress, self.objective.schedule
        for note in self.objective.notes:
            self.log.info("%s", note)
        if self.world.is_first:
            atomic.write_json_lines(self.run.metrics, progress.rows)
        with watch_signals() as watch, ExitStack() as stack:
            gc.collect()
            gc.freeze()  # or the collector would traverse a data set of millions of objects again and again, for up to 0.5 s
            stack.callback(gc.unfreeze)
            while progress.epoch < schedule.epochs and not 0 < schedule.early_stopping <= progress.stale:
                self._run_epoch(watch)
                self._close_epoch()
                self._check(watch)
            self._load_best()
            self.objective.evaluate(lambda: self._check(watch))
            self._write_times()
            if self.world.is_first:
                atomic.write_text(self.run.done, f"best epoch {progress.best_epoch}\n")
            self._check(watch)

    def _check(self, watch: Watch, received: float | None = None) -> None:
        """Raise Interrupted when any process has received a signal. received: the sum of signals, if all have computed it."""
        if received is None:
            (received,) = self.world.sums(watch.number)
        if received:
            raise Interrupted(watch.number or signal.SIGTERM)

    def _run_epoch(self, watch: Watch) -> None:
        """Run the remaining steps of an epoch. After a signal, save the run and raise Interrupted."""
        objective, progress = self.objective, self.progress
        if progress.step == 0:
            objective.begin_epoch(progress.epoch)
        title = f"{self.run.folder.name} epoch {progress.epoch + 1}/{objective.schedule.epochs}"
        validated = f"; {objective.summary(progress.rows[-1])}" if progress.rows else ""
        total, disable = objective.steps(progress.epoch), True if self.quiet else None
        self.model.train()
        with (
            tqdm(total=total, initial=progress.step, desc=title, leave=False, disable=disable) as bar,
            subnormals_as_zero(),
        ):
            for batch in objective.batches(progress.epoch, progress.step):
                counts = objective.step(batch, progress, watch)
                progress.step += 1
                progress.add(counts)
                bar.update()
                bar.set_postfix_str(f"loss {progress.loss_sum / max(progress.seen, 1):.3f}{validated}", refresh=False)
                # Agreed in the message of the gradients: a process that obeyed by itself stopped a step before the others.
                if counts.stop or progress.step % objective.checkpoint_steps == 0:
                    self.save()
                self._check(watch, counts.stop)
            progress.add(objective.settle())

    def save(self) -> None:
        """Write the checkpoint that the run is resumed from, and the CPU time so far."""
        self.progress.add(self.objective.settle())
        if self.world.is_first:
            tensors = {f"model/{name}": tensor for name, tensor in self.model.state_dict().items()}
            of_objective, values = self.objective.state()
            tensors |= {f"objective/{name}": tensor for name, tensor in of_objective.items()}
            write_weights(self.run.last, tensors, {"progress": dataclasses.asdict(self.progress), "objective": values})
        self._write_times()

    def _write_times(self) -> None:
        """Write the CPU time of all processes, with reading and evaluation, after those of earlier ones. Not in the metrics:
        there a resumed run would differ from one that was never stopped."""
        (seconds,) = self.world.sums(time.process_time() - self.started)
        # Three digits: with one, a tiny run of less than 0.05 s has 0, the sign of an unknown time.
        row = {"epoch": self.progress.epoch, "cpu_seconds": round(seconds, 3)}
        if self.world.is_first:
            atomic.write_json_lines(self.run.times, [*self.earlier_times, row])

    def _close_epoch(self) -> None:
        """Validate, keep the best weights, adjust the learning rate, save, log."""
        objective, progress = self.objective, self.progress
        schedule = objective.schedule
        values, quality = objective.validate(progress)
        progress.epoch += 1
        # No seconds here: a resumed run would differ from one that was never stopped.
        row = {"epoch": progress.epoch, "learning_rate": progress.learning_rate, **values}
        progress.rows.append(row)
        progress.step, progress.loss_sum, progress.right, progress.seen = 0, 0.0, 0, 0
        progress.stale += 1
        progress.plateau += 1
        if progress.best_epoch == 0 or quality > objective.margin * progress.best_quality:
            progress.best_quality, progress.best_epoch = quality, progress.epoch
            progress.stale = progress.plateau = 0
            if self.world.is_first:
                write_weights(self.run.best, self.model.state_dict(), {"epoch": progress.epoch, "quality": quality})
        elif objective.goes_back:
            self._load_best()
        if 0 < schedule.plateau <= progress.plateau:
            progress.learning_rate *= schedule.factor
            progress.plateau = 0
        self.save()
        if self.world.is_first:
            atomic.write_json_lines(self.run.metrics, progress.rows)
        self.log.info("%s epoch %d: %s", self.run.folder.name, progress.epoch, objective.summary(row))
        if self.on_epoch:
            self.on_epoch(dict(row), self.model)

    def _load_best(self) -> None:
        """Give the model the best weights of the run. Raises CheckpointError."""

        def best_weights() -> dict[str, Tensor]:
            if not self.run.best.exists():
                if self.progress.epoch:
                    raise CheckpointError(f"{self.run.best} is gone, and only it had the best weights. Train again.")
                write_weights(self.run.best, self.model.state_dict(), {"epoch": 0})  # a configuration without epochs
            return read_weights(self.run.best)[0]

        load_into(self.model, self.world.first(best_weights), self.run.best, finite=not self.objective.may_diverge)
