"""Generation of equations that hold and of similar false ones: axioms, rewriting, corruption, folds, presets."""
