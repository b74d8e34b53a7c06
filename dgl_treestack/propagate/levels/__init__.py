r"""The fast engine: the same steps as `topo`, over contiguous rows, with one autograd function around all of them.

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

`plan`      the row of every node: distinct leaves, then operators by level, arity and operator; equal subtrees once
`sweep`     forward and backward over the frontiers, as one autograd function around buffers whose memory is kept
`eager`     steps in Python, recorded by autograd or recomputed in backward; the linear maps per operator, their gradients
`compiled`  (the package `propagate.compiled`) steps as native code

Sharing is exact: equal subtrees have equal states, and gradients are summed over their uses. Sharing is off with external
input and with dropout masks per node.
"""
