"""Equations that hold, and false partners that look alike: axioms, rewriting, corruption, folds, audit."""
