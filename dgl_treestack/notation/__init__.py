"""How an expression is written down: `infix` for people, `prefix` for trees of any depth, `symbolic` for SymPy."""
