"""Native code for the sweep of `levels`.

`traced`    a cell's step and its gradient as functions of tensors, per-operator linear maps left opaque
`kernels`   these functions traced, exported and compiled by torch's Inductor, and kept on disk
`library`   csrc/ as a Python module: the loop over frontiers and the custom operator that compiled steps call for linear maps
`stepper`   the `Stepper` that runs them
"""
