"""Runs: configuration, run folder, weights, environment, evaluation, pretrained models, import of released weights."""
