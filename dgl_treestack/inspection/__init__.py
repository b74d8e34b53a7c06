"""Look into batches and models: tables, drawings and files of graphs, and what a model computes at every node."""
