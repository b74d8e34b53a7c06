"""Algorithmic patterns (Joulin & Mikolov 2015): sequences whose end is determined by their beginning, and nets that find out.

Many nets with weights of their own, restarts, are trained side by side: which of them finds the algorithm is a matter of luck.
"""
