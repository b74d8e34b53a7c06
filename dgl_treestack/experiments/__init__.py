"""Experiments of many runs: grids, and the papers' protocols."""
