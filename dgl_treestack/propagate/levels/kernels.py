"""Kernels compiled ahead of time by torch's Inductor and kept on disk. What is beta in torch stands in this file alone."""

import hashlib
import logging
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import cpp_builder
from torch._inductor.exc import InvalidCxxCompiler
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

from dgl_treestack import stack
from dgl_treestack.propagate.levels.stepping import Kernel

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where compiled kernels are kept: TREESTACK_CACHE_DIR, or the user's cache."""
    own = os.environ.get("TREESTACK_CACHE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgl_treestack"


_MOVES = (torch.ops.aten.index_select.default, torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default)


def has_compiler() -> bool:
    """Whether there is a C++ compiler that Inductor can use."""
    try:
        cpp_builder.get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


class _Listed(nn.Module):
    """A traced graph as a module with one argument, the list of its tensors."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.graph = graph

    def forward(self, tensors: list[Tensor]) -> Any:
        return self.graph(*tensors)


def compiled(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> Kernel:
    """A `Build`: native code for these sizes, whatever the number of rows and nodes, from the cache where it is there."""
    with stack.row_by_row(), warnings.catch_warnings(), _without_traces():
        warnings.simplefilter("ignore")
        graph = make_fx(lambda tensors: list(kernel(tensors)), tracing_mode="symbolic")(examples)
        used = _pruned(graph)
        if _only_moves(graph):
            forward = graph.forward  # without what a call of a module does beside
            return lambda tensors: forward(*(tensors[i] for i in used))
        run = _native(graph, [examples[i] for i in used], [per_node[i] for i in used])
    return lambda tensors: run([tensors[i] for i in used])


def _native(graph: torch.fx.GraphModule, examples: list[Tensor], per_node: list[int]) -> Kernel:
    """A graph, function of its tensors, as native code."""
    nodes, rows = Dim("nodes", min=1), Dim("rows", min=1)
    dynamic = [{0: count * nodes if count > 1 else nodes if count else rows} for count in per_node]
    program = torch.export.export(_Listed(graph), (examples,), dynamic_shapes=(dynamic,), strict=False)
    path = cache_folder() / f"{_key(program, examples)}.pt2"
    if not path.exists():
        _build(program, path)
    return torch._inductor.aoti_load_package(str(path)).loader.boxed_run


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


def _only_moves(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph computes nothing, but gathers and views: not worth a kernel."""
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    return all(not isinstance(f, torch._ops.OpOverload) or f.is_view or f in _MOVES for f in called)


def _key(program: torch.export.ExportedProgram, examples: Sequence[Tensor]) -> str:
    """Of all that decides on the code: the graph with its sizes, types, device, torch, the processor."""
    sizes = [(str(tensor.dtype), str(tensor.device), tuple(tensor.shape[1:])) for tensor in examples]
    place = [torch.__version__, torch.backends.cpu.get_cpu_capability(), platform.machine(), sys.platform]
    return hashlib.sha256(repr([program.graph_module.code, sizes, place]).encode()).hexdigest()[:40]


def _build(program: torch.export.ExportedProgram, path: Path) -> None:
    """Compile into a file of its own, then give it its name, so that several processes may build the same kernel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    logger.info("compiling a kernel for %s", path.name)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = torch._inductor.aoti_compile_and_package(program, package_path=str(Path(folder) / "kernel.pt2"))
        os.replace(made, path)
