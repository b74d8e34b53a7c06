"""Algorithmic patterns (Joulin & Mikolov 2015): sequences whose end is determined by their beginning, and nets that learn them.

Many nets with weights of their own, called restarts, are trained side by side, because whether a net finds the algorithm
depends on its initial values.
"""
