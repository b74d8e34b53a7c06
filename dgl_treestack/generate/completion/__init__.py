"""Equation completion: blanks in true equations, candidates to fill them, classes of equal candidates."""
