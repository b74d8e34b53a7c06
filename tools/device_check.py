"""All that needs a GPU, in at most six minutes: checks first, then timings, a table last, full numbers in a file.

    python -m tools.device_check cuda report.json            on a GPU
    python -m tools.device_check cpu report.json --small     the same code on the CPU, where no steps are recorded

Every part is a process with a limit of time, so that a fault in one part leaves the others. The file is written after each.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack import _dgl, atomic, cells, plain_data
from dgl_treestack.cli.doctor import examine
from dgl_treestack.data import formats
from dgl_treestack.data.formats import Example
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression import Expression
from dgl_treestack.expression.operators import Operator, Signature
from dgl_treestack.inspection import device_check
from dgl_treestack.model import recorded
from dgl_treestack.model.model import Model
from dgl_treestack.processes import Interrupted
from dgl_treestack.propagate import draw_key
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.propagate.levels import grouped, static
from dgl_treestack.runs.configuration import OptimizerConfig, RunConfig
from dgl_treestack.training.optimizer import RowOptimizer
from dgl_treestack.training.recorded import RecordedStep
from dgl_treestack.training.start import start
from dgl_treestack.training.trees import TreeObjective

RATE, WARM = 1e-3, 10
LONGER = Path(__file__).parent.parent / "benchmarks" / "equations.jsonl.gz"  # of 30 nodes
Rows = list[dict[str, Any]]


def call_again(step: Callable[[], None]) -> Callable[[], object]:
    """Stand for a recorder where there is none."""
    step()
    return step


def as_traced(graph: torch.fx.GraphModule, examples: list[Tensor], sizes: Any) -> Callable[..., Any]:
    """Stand for a compiler where there is none."""
    return graph


class Case:
    """A model with its optimizer, batches of its data set, and the recorded step, of stage 2 if fused, else of stage 1."""

    def __init__(
        self, model: Model, examples: list[Example], size: int, count: int, task: str | None = None, *, fused: bool = False
    ):
        self.model, self.device = model.train(), next(model.parameters()).device
        self.optimizer = RowOptimizer(model, OptimizerConfig(learning_rate=RATE))
        self.dataset = model.prepare(examples, task)
        generator = np.random.default_rng(0)
        self.batches = [generator.permutation(len(self.dataset))[:size] for _ in range(count)]
        record = recorded.recorder(self.device) or call_again
        arguments = self.model, self.optimizer, OptimizerConfig(learning_rate=RATE), self.dataset, self.batches[:20]
        build = (static.builder(self.device) or as_traced) if fused else None
        self.step = RecordedStep(*arguments, lambda losses, _: losses.mean(), [], record=record, build=build)
        self.is_fused = self.step.plans[0].build is not None  # None where steps turned out not to compile

    def indices(self, i: int) -> recorded.Prepared | None:
        return self.step.indices(self.batches[i], draw_key(torch.Generator().manual_seed(i)))

    def plain_step(self, i: int, engine: str = "levels") -> None:
        """Train a step that is not recorded."""
        batch = self.dataset.batch(self.batches[i], self.device)
        output = self.model(batch, engine, generator=torch.Generator().manual_seed(i))
        self.optimizer.zero()
        self.model.losses(output, batch).mean().backward()
        self.optimizer.collect()
        self.optimizer.step(RATE)

    def milliseconds(self, step: Callable[[int], object], count: int) -> float:
        """Return the median of the wall time of whole steps: batch, plan, copy, forward, backward, optimizer."""
        seconds = []
        for i in range(count):
            started = time.perf_counter()
            step(i % len(self.batches))
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
        return 1000 * median(seconds[WARM:] or seconds)


def equal_numbers(device: str, small: bool) -> Rows:
    """Three recorded steps of every model with dropout, in double precision, against plain steps on the CPU."""
    return _against_plain(device, sorted(cells.models())[:: 20 if small else 1], 5 if small else 23, fused=False)


def equal_fused_numbers(device: str, small: bool) -> Rows:
    """The same of compiled steps, of models with different steps, because each takes some seconds to compile."""
    names = ["tree_rnn"] if small else ["tree_smu", "tree_lstm", "tree_slots"]
    return _against_plain(device, names, 5 if small else 23, fused=True)


def _against_plain(device: str, names: list[str], count: int, *, fused: bool) -> Rows:
    rows, examples = [], device_check.examples()[:400]
    for name in names:
        models = [Model.build(name, 16, seed=0, dropout=0.1).double() for _ in range(2)]
        case = Case(models[0].to(device), examples, 24, count, fused=fused)
        plain = Case(models[1].to("cpu"), examples, 24, count)
        fitting = [(i, host) for i in range(count) if (host := case.indices(i)) is not None][:3]
        for i, host in fitting:
            case.step(host, RATE)
            plain.plain_step(i)
        pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
        difference = max(float((a.detach().cpu() - b.detach()).abs().max()) for a, b in pairs)
        is_right = difference < 1e-9 and len(fitting) == 3 and case.is_fused == fused
        rows.append({"model": name, "steps": len(fitting), "fused": case.is_fused, "difference": difference, "ok": is_right})
    return rows


def kernels(device: str, small: bool) -> Rows:
    """Whether the kernels in Triton run, and microseconds of a product of 20 maps beside those of a batched product."""
    rows: Rows = []
    maps_count, width, height = (2, 8, 12) if small else (20, 128, 448)
    for dtype, length in ((torch.float32, 16), (torch.float32, 256), (torch.float64, 16)):
        module, place = grouped.kernels(torch.device(device, 0) if device == "cuda" else torch.device(device), dtype), device
        x = torch.randn(maps_count * length, width, dtype=dtype, device=place)
        weight = torch.randn(maps_count, height, width, dtype=dtype, device=place)
        y, maps, zeros = x.new_empty(len(x), height), torch.arange(maps_count, device=place), torch.zeros_like(weight)
        row = {"dtype": str(dtype), "rows per map": length, "kernels": module is not None}
        for name, operations in (("triton", module), ("torch", grouped.Plain)):
            if operations is not None:
                given = x, None, weight, weight[:, :, 0].contiguous(), maps, False
                row[f"{name} forward"] = _microseconds(lambda: operations.linear(y, *given), device)  # noqa: B023
                of_weights = y, x, None, maps, zeros, None
                row[f"{name} of weights"] = _microseconds(lambda: operations.add_gradients(*of_weights), device)  # noqa: B023
        rows.append(row)
    return rows


def _microseconds(function: Callable[[], object], device: str) -> float:
    """Return the time of a call, in a CUDA graph of 20 where there is one."""
    if not device.startswith("cuda"):
        started = time.perf_counter()
        function()
        return 1e6 * (time.perf_counter() - started)

    def twenty_times() -> None:
        for _ in range(20):
            function()

    replay = recorded.cuda_graph(twenty_times)
    replay()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(10):
        replay()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started) / 200


def reference_engine(device: str, small: bool) -> Rows:
    """States of `topo` on the device against those on the CPU, in double precision."""
    if _dgl.REASON:
        return [{"skipped": _dgl.REASON}]
    rows = []
    for name in ("tree_smu", "tree_lstm_child_sum"):
        outputs = []
        for place in (device, "cpu"):
            model = Model.build(name, 16, seed=0).double().to(place).eval()
            batch = model.prepare(device_check.examples()[:64]).batch(np.arange(8 if small else 64), place)
            outputs.append(model(batch, engine="topo").detach().cpu())
        difference = float((outputs[0] - outputs[1]).abs().max())
        rows.append({"model": name, "difference": difference, "ok": difference < 1e-12})
    return rows


def equal_trainings(device: str, small: bool) -> Rows:
    """Two trainings are equal to the bit; one that is stopped goes on, on the device with equal bits, and on a CPU."""
    data = {"train": ["bundled:smoke/train"], "validation": ["bundled:smoke/validation"], "test": []}
    model = {"name": "tree_smu", "hidden": 16, "dropout": 0.1}
    share = {"max_depth": 3} if small else {}
    described = {"name": "check", "model": model, "data": data | share, "schedule": {"epochs": 2}, "batch_size": 32}
    config = plain_data.build(RunConfig, described)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (start(config, 0, Path(folder) / name, device=device, quiet=True) for name in "ab")
        stopped_weights = []
        for name, place in (("c", device), ("d", "cpu")):
            _stop(config, Path(folder) / name, device)
            run = start(config, 0, Path(folder) / name, device=place, resume=True, quiet=True)
            stopped_weights.append((run.last.read_bytes(), run.read_metrics()[-1]["validation_accuracy"]))
        assert run.done.exists()
        weights, accuracy = first.last.read_bytes(), first.read_metrics()[-1]["validation_accuracy"]
        return [
            {"check": "two trainings", "ok": weights == second.last.read_bytes()},
            {"check": "stopped and resumed", "ok": stopped_weights[0][0] == weights},
            {
                "check": "resumed on a CPU",
                "accuracy": [accuracy, stopped_weights[1][1]],
                "ok": abs(accuracy - stopped_weights[1][1]) < 3,
            },
        ]


def _stop(config: RunConfig, folder: Path, device: str) -> None:
    """Train ten steps, save, and stop."""
    count, real = 0, TreeObjective.step

    def step(self: TreeObjective, *given: Any) -> Any:
        nonlocal count
        count += 1
        if count == 10:
            given[-1].number = 15
        return real(self, *given)

    TreeObjective.step = step  # type: ignore
    try:
        start(config, 0, folder, device=device, quiet=True)
    except Interrupted:
        pass
    finally:
        TreeObjective.step = real  # type: ignore


def steps(device: str, small: bool) -> Rows:
    """Whole training steps: recorded, plain, and of native code on one core of the CPU, on the same equations."""
    rows, count, batches = [], 2 if small else 210, 5 if small else 40
    bundled, longer = device_check.examples(), list(formats.read_examples([str(LONGER)]))
    for name in ("tree_rnn",) if small else ("tree_smu", "tree_lstm"):
        for data, examples in (("bundled", bundled), ("30 nodes", longer))[: 1 if small else 2]:
            for size in (32,) if small else (32, 256, 1024):
                case = Case(Model.build(name, 64, seed=0).to(device), examples, size, batches)
                hosts = [case.indices(i) for i in range(batches)]
                row = {"model": name, "data": data, "batch": size, "fit": sum(host is not None for host in hosts)}
                fitting = [host for host in hosts if host is not None]
                row["stage 1 replayed"] = case.milliseconds(lambda i: case.step(fitting[i % len(fitting)], RATE), count)  # noqa: B023
                row["stage 1 prepared and replayed"] = case.milliseconds(lambda i: _prepared(case, i), max(count // 3, 1))  # noqa: B023
                row |= _fused(name, examples, size, batches, count, device)
                row["plain"] = case.milliseconds(case.plain_step, min(count, 30))
                if not small and not unavailable():
                    core = Case(Model.build(name, 64, seed=0), examples, size, batches)
                    row["native core"] = core.milliseconds(lambda i: core.plain_step(i, "levels/compiled"), 30)  # noqa: B023
                rows.append(row)
                print(json.dumps(rows), flush=True)  # what there is when the time is over
    return rows


def _fused(name: str, examples: list[Example], size: int, batches: int, count: int, device: str) -> dict[str, Any]:
    """The same of stage 2, and the seconds until a step is compiled and recorded."""
    started = time.perf_counter()
    case = Case(Model.build(name, 64, seed=0).to(device), examples, size, batches, fused=True)
    row: dict[str, Any] = {"stage 2 ready, s": time.perf_counter() - started, "stage 2 compiled": case.is_fused}
    fitting = [host for i in range(batches) if (host := case.indices(i)) is not None]
    row["stage 2 replayed"] = case.milliseconds(lambda i: case.step(fitting[i % len(fitting)], RATE), count)
    row["stage 2 prepared and replayed"] = case.milliseconds(lambda i: _prepared(case, i), max(count // 3, 1))
    return row


def _prepared(case: Case, i: int) -> None:
    host = case.indices(i)
    if host is None:
        case.plain_step(i)
    else:
        case.step(host, RATE)


def epoch(device: str, small: bool) -> Rows:
    """Seconds of an epoch of 27,108 equations at batch 1,024, batches prepared ahead in a thread, without validation."""
    equations = device_check.examples()
    count, size = (128, 64) if small else (27_108, 1024)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl.gz"
        formats.write(
            path,
            [
                Example(equations[i % len(equations)].equation, equations[i % len(equations)].label, str(i))
                for i in range(count)
            ],
        )
        validation = "bundled:smoke/validation"
        described = {
            **{"name": "epoch", "batch_size": size, "checkpoint_steps": 10**6, "schedule": {"epochs": 2 if small else 6}},
            **{
                "model": {"name": "tree_smu", "hidden": 64},
                "data": {"train": [str(path)], "validation": [str(path) if small else validation], "test": []},
            },
        }
        ends: list[float] = []
        begin, validate = TreeObjective.begin_epoch, TreeObjective.validate
        seconds: list[float] = []

        def began(self: TreeObjective, number: int) -> None:
            ends.append(time.perf_counter())
            begin(self, number)

        def validated(self: TreeObjective, progress: Any) -> Any:
            seconds.append(time.perf_counter() - ends[-1])
            return validate(self, progress)

        TreeObjective.begin_epoch, TreeObjective.validate = began, validated  # type: ignore
        start(plain_data.build(RunConfig, described), 0, Path(folder), device=device, quiet=True)
    return [{"equations": count, "batch": size, "first epoch": seconds[0], "later epochs": median(seconds[1:])}]


def sentences(device: str, small: bool) -> Rows:
    """Tree-LSTM, hidden 150, batch 256, on binary trees of 20 words, like those of sentences: trees per second."""
    language = Signature("sentences", (Operator("join", 2),), words=True, classes=tuple("01234"))
    words, rng = [f"w{i}" for i in range(2000)], random.Random(0)

    def tree(size: int) -> Expression:
        if size == 1:
            return Expression.leaf("Word", rng.choice(words), language)
        left = rng.randrange(1, size)
        return Expression.node("join", tree(left), tree(size - left))

    examples = [
        Example(tree(max(1, round(rng.gauss(20, 6)))), str(rng.randrange(5)), str(i)) for i in range(60 if small else 3000)
    ]
    name, hidden, batches = ("tree_rnn", 15, 4) if small else ("tree_lstm", 150, 30)
    model = Model.build(name, hidden, Vocabulary.of_words(words), ["classification"], language, seed=0)
    size, rows = 32 if small else 256, []
    for fused in (False, True):
        case = Case(model.to(device), examples, size, batches, fused=fused)
        hosts = [host for i in range(batches) if (host := case.indices(i)) is not None]
        milliseconds = case.milliseconds(lambda i: case.step(hosts[i % len(hosts)], RATE), 2 if small else 210)  # noqa: B023
        row = {"batch": size, "stage": 1 + case.is_fused, "milliseconds": milliseconds, "fit": len(hosts)}
        rows.append(row | {"trees per second": 1000 * size / milliseconds})
    return rows


# name -> part and its limit in seconds
PARTS: dict[str, tuple[Callable[[str, bool], Rows], int]] = {
    "kernels": (kernels, 25),
    "equal numbers": (equal_numbers, 60),
    "equal fused numbers": (equal_fused_numbers, 60),
    "reference engine": (reference_engine, 15),
    "equal trainings": (equal_trainings, 50),
    "steps": (steps, 90),
    "epoch": (epoch, 35),
    "sentences": (sentences, 25),
}


def main(device: str, output: str, *options: str) -> int:
    report: dict[str, Any] = {"environment": examine(), "device": device}
    if device.startswith("cuda"):
        report["card"] = torch.cuda.get_device_name(device)
    for name, (_, limit) in PARTS.items():
        command = [sys.executable, "-m", "tools.device_check", "--part", name, device, *options]
        limit *= 1 if device.startswith("cuda") else 4  # a processor is shared, and its minutes are not rare
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=limit)
            lines = result.stdout.strip().splitlines()
            report[name] = json.loads(lines[-1]) if not result.returncode else [{"fault": result.stderr[-800:]}]
        except subprocess.TimeoutExpired as error:
            lines = (error.stdout or b"").decode().strip().splitlines()
            report[name] = [*(json.loads(lines[-1]) if lines else []), {"fault": f"not done in {limit} s"}]
        atomic.write_text(Path(output), json.dumps(report, indent=1))
        for row in report[name]:
            print(
                name,
                *(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()),
                sep="  ",
            )
    rows = [row for name in PARTS for row in report[name]]
    return int(any("fault" in row or not row.get("ok", True) for row in rows))


if __name__ == "__main__":
    if sys.argv[1] == "--part":
        torch.set_num_threads(1)
        print(json.dumps(PARTS[sys.argv[2]][0](sys.argv[3], "--small" in sys.argv)))
    else:
        sys.exit(main(*sys.argv[1:]))
