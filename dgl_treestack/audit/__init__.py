"""Audit of files of equations: labels, duplicates, and the accuracy of models that cannot do mathematics.

Reading order: `examination` (one equation), `corpus` (all of them, as columns), `verdicts`, `entries` and `matches`
(duplicates and overlap), `counts`, `baselines` and `leakage` (shortcuts), `report`, `tables`, `explanation`.
"""
