r"""The fast driver: the same steps as `topo`, over contiguous rows, with one autograd function around all of them.

    sin(x) + x*sin(x) = y         rows        frontiers               one frontier, forward and backward

              =                   0  x                                buffers[children] ─► step ─► x of a linear map
             / \                  1  y                                                                 │ a map per operator
            +   y                 2  sin(x)   level 1, unary                                           ▼
           / \        ──►         3  x*sin(x) level 2, binary   ──►                            ◄─ y of the linear map
         sin  *                   4  +        level 3, binary                                  │
          |  / \                  5  (the root: zeros)                                         ▼
          x x  sin                                                    buffers[start:stop] = state of the frontier
                |                 `row` maps the nine nodes
                x                 of the tree to six rows

`plan`         the row of every node: distinct leaves, then operators by level, arity and operator; equal subtrees once
`sweep`        forward and backward over the frontiers, as one autograd function around preallocated buffers
`arena`        the memory of buffers and intermediate results, kept from sweep to sweep
`eager`        steps in Python, as the cell has them, recorded by autograd or recomputed in backward
`linear_maps`  their linear maps per operator, and the gradients of the weights
`compiled`     (the package beside this one) steps as native code

Sharing is exact: equal subtrees have equal states, and gradients are summed over their uses. It is off where nodes have an
external input or a dropout mask of their own.
"""

from collections.abc import Sequence

from dgl_treestack.cells import PER_CHILD, Cell
from dgl_treestack.data.forest import Source, feature
from dgl_treestack.data.wellformed import Checked
from dgl_treestack.propagate.levels.arena import Arena
from dgl_treestack.propagate.levels.eager import EagerStepper
from dgl_treestack.propagate.levels.plan import Plans
from dgl_treestack.propagate.levels.sweep import Stepper, Work, sweep
from dgl_treestack.propagate.noise import Noise
from dgl_treestack.propagate.states import States


def run(
    source: Source,
    cell: Cell,
    signals: Sequence[str],
    noise: Noise,
    plans: Plans,
    engine: str = "levels",
    checked: Checked | None = None,
) -> States:
    """Run a cell, see `propagate.compute`.

    engine: `levels`, `levels/traced` or `levels/compiled`. Signals are computed by eager steps, whatever the engine.
    checked: the result of `check` for a graph.
    """
    parameter = next(cell.parameters())
    inputs = feature(source, "input").to(parameter.device) if cell.input_size else None
    may_share = inputs is None and (not noise or noise.subtree is not None)
    plan = plans.get(source, shared=may_share, device=parameter.device, noise_subtree=noise.subtree, checked=checked)
    shapes = {name: tuple(plan.width if size == PER_CHILD else size for size in cell.signals[name]) for name in signals}
    arena = Arena(parameter.dtype, parameter.device)
    work = Work(cell, plan, inputs, noise, shapes, arena)
    stepper: Stepper
    if engine == "levels" or signals:
        stepper = EagerStepper(work)
    else:
        from dgl_treestack.propagate.compiled import kernels  # loads Inductor
        from dgl_treestack.propagate.compiled import stepper as steppers

        stepper = steppers.CompiledStepper(work, kernels.compiled if engine == "levels/compiled" else kernels.eager)
    rows = sweep(work, stepper, cell.leaf(plan.token, plan.number)["h"])
    named_rows = {name if name in cell.fields else f"signal/{name}": value for name, value in rows.items()}
    return States(named_rows, plan.row, arena)
