"""Kernels compiled ahead of time by torch's Inductor and kept on disk. What is beta in torch stands in this file alone."""

import hashlib
import logging
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
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


_MOVES = (torch.ops.aten.index_select.default, torch.ops.aten.sym_size.int)


class _Listed(nn.Module):
    """A traced graph as a module with one argument, the list of its tensors."""

    def __init__(self, graph: nn.Module):
        super().__init__()
        self.graph = graph

    def forward(self, tensors: list[Tensor]) -> Any:
        return self.graph(tensors)


def compiled(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> Kernel:
    """A `Build`: native code for these sizes, whatever the number of rows and nodes, from the cache where it is there."""
    nodes, rows = Dim("nodes", min=1), Dim("rows", min=1)
    dynamic = [{0: count * nodes if count > 1 else nodes if count else rows} for count in per_node]
    with stack.row_by_row(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = make_fx(lambda tensors: list(kernel(tensors)), tracing_mode="symbolic")(examples)
        if _only_moves(graph):
            return graph
        program = torch.export.export(_Listed(graph), (examples,), dynamic_shapes=(dynamic,), strict=False)
        path = cache_folder() / f"{_key(program, examples)}.pt2"
        if not path.exists():
            _build(program, path)
        loader = torch._inductor.aoti_load_package(str(path)).loader
    return loader.boxed_run


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
