"""Attacks that are counted: damaged input of every kind, by seed. `python -m fuzz --help`."""
