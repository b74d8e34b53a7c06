r"""The fast driver: the same steps as `topo`, over contiguous rows, with one function for autograd around all of them.

    sin(x) + x*sin(x) = y         rows        chunks                    one chunk, ahead and back

              =                   0  x                                  buffers[children] ─► piece 0 ─► x
             / \                  1  y                                                                  │ a product per operator
            +   y                 2  sin(x)   turn 1, unary                                             ▼
           / \        ──►         3  x*sin(x) turn 2, binary   ──►      buffers[children] ─► piece 1 ◄─ y
         sin  *                   4  +        turn 4, binary                                   │
          |  / \                  5  (the root: nothing)                                       ▼
          x x  sin                                                      buffers[start:stop] = state of the chunk
                |                 `row` leads from the nine nodes
                x                 of the tree to six rows

`plan`      where every node is computed: distinct leaves, then operators by turn, arity and operator; equal subtrees once
`sweep`     ahead and in reverse, as one autograd function around preallocated buffers
`memory`    what buffers and everything else is taken from, kept from sweep to sweep
            Steps as the cell has them, in Python, which need no preparation and know signals:
`recorded`  a step after the other, recorded by autograd, or taken again on the way back where that would be too much
`products`  their linear maps per operator, and the gradients of the weights
            Steps cut at their products, by native code:
`pieces`    the cuts, which are found by running a step on small numbers
`building`  pieces and their gradients as kernels, functions of lists of tensors
`kernels`   kernels as native code, made by torch's Inductor and kept on disk, after `row_by_row` has made one loop of them
`names`     by what they are found there, in the `cache`; `elementary` has their exp, sigmoid and tanh
`stepping`  a sweep put together for `native`: `native.cpp` has the loop over chunks, `steps.h` that over pieces, `maps.h`
            linear maps, `blas.h` their products

Sharing is exact: what is computed once is equal, and gradients are summed over its uses. It is off where nodes have something
of their own, an external input or a dropout mask per node.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from dgl_treestack.cells import PER_CHILD, Cell
from dgl_treestack.data.columns import Source, feature
from dgl_treestack.data.wellformed import Checked
from dgl_treestack.propagate.levels.building import Build as Build
from dgl_treestack.propagate.levels.building import Kernel
from dgl_treestack.propagate.levels.building import plain as plain
from dgl_treestack.propagate.levels.memory import Memory
from dgl_treestack.propagate.levels.native import compiler
from dgl_treestack.propagate.levels.plan import Plans
from dgl_treestack.propagate.levels.recorded import Recorded
from dgl_treestack.propagate.levels.stepping import Stepping
from dgl_treestack.propagate.levels.sweep import Work, sweep
from dgl_treestack.propagate.noise import Noise
from dgl_treestack.propagate.states import States


def run(
    source: Source,
    cell: Cell,
    signals: Sequence[str],
    noise: Noise,
    plans: Plans,
    build: Build | None = None,
    checked: Checked | None = None,
) -> States:
    """See `compute`. build: what makes kernels; without it, and for signals, steps are recorded as they are. checked: a graph
    after its check."""
    one = next(cell.parameters())
    device = one.device
    inputs = feature(source, "input").to(device) if cell.input_size else None
    may_share = inputs is None and (not noise or noise.subtree is not None)
    plan = plans.get(source, shared=may_share, device=device, drawn_by=noise.subtree, checked=checked)
    shapes = {name: tuple(plan.width if size == PER_CHILD else size for size in cell.signals[name]) for name in signals}
    memory = Memory(one.dtype, device)
    work = Work(cell, plan, inputs, noise, shapes, memory)
    build = None if signals else build
    rows = sweep(work, Recorded(work) if build is None else Stepping(work, build), cell.leaf(plan.token, plan.number)["h"])
    return States({name if name in cell.fields else f"signal/{name}": value for name, value in rows.items()}, plan.row, memory)


def compiled(kernel: Kernel, examples: list[Tensor], per_node: list[int], name: Callable[[], str | None]) -> Kernel:
    """A `Build`: native code. See `kernels`, which is imported when it is needed, because that takes a second."""
    from dgl_treestack.propagate.levels import kernels

    return kernels.compiled(kernel, examples, per_node, name)


def has_compiler() -> bool:
    """Whether kernels can be compiled here."""
    return compiler() is not None
