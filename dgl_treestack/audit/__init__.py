"""What files of equations contain, and how far a model gets in them without mathematics.

Reading order: `examination` (one equation), `corpus` (all of them, as columns), `verdicts`, `entries` and `matches`
(duplicates and overlap), `counts`, `baselines` and `leakage` (shortcuts), `report`, `tables`, `explanation`.
"""
