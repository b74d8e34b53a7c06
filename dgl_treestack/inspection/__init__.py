"""Inspection of batches and models: tables, drawings and files of graphs, and a model's values at every node."""
