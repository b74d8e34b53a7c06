"""Audit of files of equations: labels, duplicates, and the accuracy of models that cannot do mathematics.

Reading order: `corpus` (every equation examined, all of them as columns), `matches` (duplicates and overlap), `leakage`
(shortcuts), `report`, `explanation`.
"""
