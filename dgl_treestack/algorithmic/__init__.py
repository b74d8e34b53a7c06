"""Algorithmic patterns (Joulin & Mikolov 2015): sequences whose end is determined by their beginning, and nets that learn them.

Many nets with separate weights, called restarts, are trained together, because it depends on the initial values whether a net
finds the algorithm.
"""
