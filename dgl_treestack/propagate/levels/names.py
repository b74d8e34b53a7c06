"""By what a kernel is known without being traced, which takes a hundred times as long as reading it.

A name tells of the code of this package, of the cell's class and what is set of it, and of what the kernel makes of a few
random numbers: kernels that differ in any of these have different names. A cell from elsewhere has none, its code may be
anywhere; its kernels are traced at every start.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

import dgl_treestack
from dgl_treestack.cells import Cell

Kernel = Callable[[list[Tensor]], Sequence[Tensor]]

NODES = 7
SPREAD = 3.0  # of the random numbers, so that both sides of every function are seen
OF_ANY_MODULE = {*vars(nn.Module()), "products", "operators"}


def name_of(cell: Cell, kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> str | None:
    """Of a kernel of a cell; None where there cannot be one. examples, per_node: as a `Build` takes them."""
    home = dgl_treestack.__name__
    every = [one for one in cell.modules() if isinstance(one, Cell)]  # a cell may be made of others
    if any(
        kind.__module__.split(".")[0] not in (home, "torch", "abc", "builtins") for one in every for kind in type(one).__mro__
    ):
        return None
    settings = [{name: value for name, value in vars(one).items() if name not in OF_ANY_MODULE} for one in every]
    told = re.sub(r" at 0x[0-9a-f]+", "", repr(settings))  # functions by their names alone
    sizes = [(str(one.dtype), str(one.device), tuple(one.shape[1:]), one.stride()) for one in examples]
    kinds = [type(one).__qualname__ for one in every]
    own = [_sources(), kinds, told, sizes, per_node, _numbers(kernel, examples, per_node)]
    return hashlib.sha256(repr(own).encode()).hexdigest()[:40]


@cache
def _sources() -> str:
    """Of the code of this package."""
    whole = hashlib.sha256()
    for path in sorted(Path(dgl_treestack.__file__).parent.rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def _numbers(kernel: Kernel, examples: list[Tensor], per_node: list[int]) -> str:
    """What a kernel returns and leaves in its tensors, of a few nodes."""
    source = torch.Generator().manual_seed(0)
    given = []
    for example, count in zip(examples, per_node, strict=True):
        own = example[: NODES * count] if count else example
        if own.is_floating_point():
            own = (SPREAD * torch.randn(own.shape, generator=source, dtype=own.dtype)).to(own.device)
        given.append(own)
    whole = hashlib.sha256()
    for one in (*kernel(given), *given):
        whole.update(one.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
