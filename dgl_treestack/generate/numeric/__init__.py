"""Numeric equations: function evaluations and decimal expansions, true and false."""
