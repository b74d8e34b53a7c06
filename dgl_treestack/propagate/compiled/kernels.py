"""Traced steps as native code, compiled ahead of time by Inductor and cached on disk."""

import hashlib
import json
import logging
import re
import threading
import warnings
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

import dgl_treestack
from dgl_treestack import _torch
from dgl_treestack.cells import Cell
from dgl_treestack.propagate.compiled.cache import cached, digest, is_intact, private_folders
from dgl_treestack.propagate.compiled.library import native, platform_key
from dgl_treestack.propagate.compiled.rows import RowByRow
from dgl_treestack.propagate.compiled.traced import TracedStep

logger = logging.getLogger(__name__)

# No thresholds for intermediate results: raised so that Inductor recomputes in place of storing, they are no substitute
# for `RowByRow` (1.32 and 1.28 of an earlier engine's time at batch 32 and 1,024; with `RowByRow` 1.06 and 1.04).
OPTIONS: dict[str, Any] = {
    "cpp.enable_floating_point_contract_flag": "fast",  # fused multiply-add
}
_GRAPHS: dict[tuple[Any, ...], list[tuple[weakref.ref[nn.Module], Any]]] = {}  # loaded: file, inputs -> cell, graph
_LOCK = threading.Lock()  # of _GRAPHS
NOT_SETTINGS = {*vars(nn.Module()), "products", "operators"}  # attributes of a cell


def eager(step: TracedStep, backward: bool) -> Any:
    """A step, or its gradient, as a `Graph` that calls Python from the native loop."""
    return native().Graph(step.backward if backward else step.forward, [*range(len(step.examples(backward=backward)[0]))])


def compiled(step: TracedStep, backward: bool) -> Any:
    """A step, or its gradient, as a `Graph` of native code for any number of rows and nodes: cached, or traced and compiled."""
    library, key = native(), cache_key(step, backward)

    def build() -> tuple[Path, list[int]]:
        return _compile(step.backward if backward else step.forward, *step.examples(backward=backward))

    def write_note(folder: Path) -> Path:
        path, used = build()
        note = folder / "note.json"
        note.write_text(json.dumps([path.name, used]))
        return note

    with private_folders():
        if key is None:
            path, used = build()
        else:
            # By its key, the first step of a Tree-SMU whose kernels are on disk takes 0.10 s; tracing the step only to
            # find them took 13.5 s.
            note = cached(key, ".json", write_note)
            name, used = json.loads(note.read_text())
            path = note.with_name(name)
            if not is_intact(path):
                with suppress(OSError):
                    note.unlink()
                path, used = build()
        return _load(library, path, used, step.cell)


def _load(library: Any, path: Path, used: list[int], cell: nn.Module) -> Any:
    """Return the `Graph` of a file, which serves one cell at a time: it must not run in two threads at once.

    That of a cell that is gone serves the next one, because the linker never unloads native code: it has unique symbols.
    """
    with _LOCK:
        # A process that trained many models grew by 1.2 MiB with each when every model loaded its code anew.
        graphs = _GRAPHS.setdefault((path, *used), [])
        for i, (owner, graph) in enumerate(graphs):
            if owner() is None or owner() is cell:
                graphs[i] = weakref.ref(cell), graph
                return graph
        graphs.append((weakref.ref(cell), library.Graph(str(path), used)))
        return graphs[-1][1]


def cache_key(step: TracedStep, backward: bool) -> str | None:
    """The cache key of a kernel, computed without tracing it; None if the cell's code is not from this package.

    It depends on the package's sources, the class and settings of the cell, the form of the step, dtype and platform.
    """
    cells = [module for module in step.cell.modules() if isinstance(module, Cell)]  # a cell may contain cells
    for base in {base for cell in cells for base in type(cell).__mro__}:
        if base.__module__.split(".")[0] not in (dgl_treestack.__name__, "torch", "abc", "builtins"):
            return None
    settings = [{name: value for name, value in vars(cell).items() if name not in NOT_SETTINGS} for cell in cells]
    # without the addresses of torch functions, and of parts of a cell that follow from its settings
    text = re.sub(r"(<built-in method \w+ of type object|<dgl_treestack\.[\w.]+ object) at 0x[0-9a-f]+", r"\1", repr(settings))
    if " at 0x" in text:  # an object whose repr does not say what it computes
        return None
    classes, form = [type(cell).__qualname__ for cell in cells], (step.form, step.dtype, step.device)
    layout = step.products, step.y_shapes, step.destinations, step.calls_with_gradient
    return digest(_sources(), classes, text, layout, form, backward, platform_key(), OPTIONS)


@cache
def _sources() -> str:
    """A hash of the sources of this package."""
    checksum = hashlib.sha256()
    for path in sorted(Path(dgl_treestack.__file__).parent.rglob("*.py")):
        checksum.update(path.read_bytes())
    return checksum.hexdigest()


def trace(function: Any, examples: list[Tensor], rows_per_node: list[int]) -> tuple[torch.fx.GraphModule, list[int]]:
    """The graph of a function without dead code, and the indices of the inputs that it uses."""
    nodes = next(len(example) // rows for example, rows in zip(examples, rows_per_node, strict=True) if rows)
    by_row = RowByRow(_torch.trace(function, examples, symbolic=False), nodes)
    graph = _torch.trace(by_row.run, examples)
    for node in graph.graph.nodes:  # only numbers of rows and nodes vary; other sizes become constants, not uses of an input
        # A kernel that only moves rows once gathered all children for the sake of their size: 6 of 209 ms of a step.
        if node.target is torch.ops.aten.sym_size.int and (size := _torch.example_size(node.meta["val"])) < nodes:
            node.replace_all_uses_with(size)
    graph.graph.eliminate_dead_code()
    graph.graph.set_codegen(torch.fx.graph.CodeGen())  # inputs one by one in place of a list
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    used = [i for i, node in enumerate(placeholders) if node.users]
    for node in placeholders:
        if not node.users:  # compiled code mistakes the sizes of unused inputs (torch 2.13)
            graph.graph.erase_node(node)
    graph.recompile()
    return graph, used


def _compile(function: Any, examples: list[Tensor], rows_per_node: list[int]) -> tuple[Path, list[int]]:
    """Return the file with the native code of a function, and the indices of the inputs that it uses."""
    graph, used = trace(function, examples, rows_per_node)
    nodes, rows = Dim("nodes", min=1), Dim("rows", min=1)
    dynamic = [{0: n * nodes if n > 1 else nodes if n else rows} for n in (rows_per_node[i] for i in used)]
    examples = [examples[i] for i in used]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(graph, tuple(examples), dynamic_shapes=tuple(dynamic), strict=False)
    # Strides belong to the key: a kernel that was made for contiguous rows writes to wrong places, without an error.
    layouts = [(str(tensor.dtype), str(tensor.device), tuple(tensor.shape[1:]), tensor.stride()) for tensor in examples]
    constants = [repr((name, value.tolist())) for name, value in program.constants.items() if isinstance(value, Tensor)]
    inline = [code.format(x="x") for code in _torch.INLINE.values()]
    key = digest(program.graph_module.code, layouts, platform_key(), OPTIONS, inline, *constants)

    def build(folder: Path) -> Path:
        # Some 9 s, of which 8 are Inductor's shell around the kernel: templates of C++, 6.7 s even without
        # optimisation.
        logger.info("compiling a kernel")
        return _torch.package(program, folder / "kernel.pt2", OPTIONS)

    return cached(key, ".pt2", build), used
