"""Kernels compiled ahead of time by Inductor and kept on disk. Beta interfaces of torch stand here and in `elementary`."""

import hashlib
import json
import logging
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

from dgl_treestack import atomic
from dgl_treestack.cells.memory import stack
from dgl_treestack.errors import OutputError
from dgl_treestack.propagate.levels.building import Kernel
from dgl_treestack.propagate.levels.cache import build_once, cache_folder
from dgl_treestack.propagate.levels.elementary import inline, written
from dgl_treestack.propagate.levels.native import native
from dgl_treestack.propagate.levels.row_by_row import RowByRow

logger = logging.getLogger(__name__)


OPTIONS = {"cpp.enable_floating_point_contract_flag": "fast"}  # a multiplication and an addition in one instruction


class _Listed(nn.Module):
    """A traced graph as a module with one argument, the list of its tensors."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.graph = graph

    def forward(self, tensors: list[Tensor]) -> Any:
        return self.graph(*tensors)


def compiled(kernel: Kernel, examples: list[Tensor], per_node: list[int], name: Callable[[], str | None]) -> Kernel:
    """A `Build`: native code for these sizes, whatever the number of rows and nodes, from the cache where it is there.

    name: under which it is noted there; without one a kernel is traced to find its code.
    """
    known = name()
    note = cache_folder() / f"{_digest(known, *_place())}.json" if known else None
    noted = _noted(note)
    path, used = noted or _made(kernel, examples, per_node)
    if note and not noted:
        with suppress(OutputError):  # a cache that is only read
            atomic.write_text(note, json.dumps([path.name, used]))
    return native().Kernel(str(path), used)


def _noted(note: Path | None) -> tuple[Path, list[int]] | None:
    """What a note says, if there is one that can be read, and the code of which it speaks."""
    if note is None or not note.exists():
        return None
    try:
        name, used = json.loads(note.read_text())
    except (ValueError, TypeError):
        return None
    path = note.with_name(name)
    return (path, used) if path.exists() else None


def _made(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> tuple[Path, list[int]]:
    """The file of a kernel's native code, and which tensors it uses."""
    with warnings.catch_warnings(), _without_traces():
        warnings.simplefilter("ignore")
        graph = _traced(kernel, examples)
        _fix_sizes(graph, _nodes(examples, per_node))
        used = _pruned(graph)
        by_row = _row_by_row(kernel, examples, per_node)
        if by_row is not None:
            graph, used = by_row
        return _native(graph, [examples[i] for i in used], [per_node[i] for i in used]), used


def _traced(kernel: Kernel, examples: list[Tensor], mode: Literal["real", "symbolic"] = "symbolic") -> torch.fx.GraphModule:
    return make_fx(lambda tensors: list(kernel(tensors)), tracing_mode=mode)(examples)


def _nodes(examples: list[Tensor], per_node: list[int]) -> int:
    return next(len(example) // count for example, count in zip(examples, per_node, strict=True) if count)


def _fix_sizes(graph: torch.fx.GraphModule, nodes: int) -> None:
    """Put numbers for sizes other than of rows and nodes (which examples tell apart): else rows are gathered for the sake of
    their size alone."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sym_size.int and (size := node.meta["val"].node.hint) < nodes:
            node.replace_all_uses_with(size)


def _row_by_row(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> tuple[torch.fx.GraphModule, list[int]] | None:
    """The graph of a kernel on rows, and which tensors it uses; None where that cannot be had or has other numbers."""
    nodes = _nodes(examples, per_node)
    try:
        with stack.row_by_row():
            whole = _traced(kernel, examples, "real")
            used = _pruned(whole)
            chosen = [examples[i] for i in used]
            graph = make_fx(lambda *tensors: RowByRow(whole, nodes).run(*tensors), tracing_mode="symbolic")(*chosen)
            graph.graph.eliminate_dead_code()
            graph.recompile()
        same = _results(graph, chosen), _results(whole, chosen)
    except Exception as error:  # an operation that only whole tensors have; the kernel stays as it was traced
        logger.debug("not row by row: %s", error)
        return None
    return (graph, used) if all(map(_close, *same)) else None


def _results(graph: torch.fx.GraphModule, tensors: Sequence[Tensor]) -> list[Tensor]:
    """What a graph returns and what it leaves in its tensors."""
    own = [tensor.clone() for tensor in tensors]
    return [*graph(*own), *own]


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def _native(graph: torch.fx.GraphModule, examples: list[Tensor], per_node: list[int]) -> Path:
    """A graph, function of its tensors, as native code in a file."""
    nodes, rows = Dim("nodes", min=1), Dim("rows", min=1)
    dynamic = [{0: count * nodes if count > 1 else nodes if count else rows} for count in per_node]
    program = torch.export.export(_Listed(graph), (examples,), dynamic_shapes=(dynamic,), strict=False)
    path = cache_folder() / f"{_key(program, examples)}.pt2"
    build_once(path, partial(_build, program))
    return path


def _pruned(graph: torch.fx.GraphModule) -> list[int]:
    """Drop from a traced graph what nobody reads. Returns which of its tensors are left: a kernel that is given others finds
    wrong sizes (seen with torch 2.13)."""
    graph.graph.eliminate_dead_code()
    graph.graph.set_codegen(torch.fx.graph.CodeGen())  # its tensors one by one, no longer as a list
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        if not node.users:
            graph.graph.erase_node(node)
    graph.recompile()
    kept = set(graph.graph.nodes)
    return [i for i, node in enumerate(placeholders) if node in kept]


@contextmanager
def _without_traces() -> Iterator[None]:
    """Torch writes a stack trace for every symbol into a log of its own, which costs time; nobody reads it here."""
    log = logging.getLogger("torch.__trace")
    handlers, log.handlers = log.handlers, []
    try:
        yield
    finally:
        log.handlers = handlers


def _key(program: torch.export.ExportedProgram, examples: Sequence[Tensor]) -> str:
    """Of all that decides on the code: the graph with its sizes, types, and the place."""
    sizes = [(str(one.dtype), str(one.device), tuple(one.shape[1:]), one.stride()) for one in examples]
    constants = [repr((name, value.tolist())) for name, value in program.constants.items() if isinstance(value, Tensor)]
    return _digest(program.graph_module.code, sizes, *_place(), *constants)


def _place() -> list[object]:
    """What else decides on it: torch, the processor, how it is written."""
    processor = [torch.__version__, torch.backends.cpu.get_cpu_capability(), platform.machine(), sys.platform]
    return [processor, OPTIONS, written()]


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr([*parts]).encode()).hexdigest()[:40]


def _build(program: torch.export.ExportedProgram, folder: Path) -> Path:
    """Compile into a folder."""
    logger.info("compiling a kernel")
    with inline():
        file = str(folder / "kernel.pt2")
        return Path(torch._inductor.aoti_compile_and_package(program, package_path=file, inductor_configs=dict(OPTIONS)))
