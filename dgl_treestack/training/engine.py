"""Which way a run computes: decided at its start, written into its environment.json, kept when it is resumed."""

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgl_treestack.encoders import Encoder
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.dataset import Batch, Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.propagate.levels import has_compiler
from dgl_treestack.runs.configuration import RunConfig

logger = logging.getLogger(__name__)

LONG = 10_000  # steps from which on compiling pays: up to a minute or two, once, then kept (LOG.md)


def choose_engine(
    config: RunConfig, model: Model, train_set: Dataset, recorded: Mapping[str, Any], device: torch.device
) -> str:
    """The engine of a run: as its environment says, or else by `compile`.

    Raises ConfigurationError where `compile` is on and there is no compiler, or native code has other gradients.
    """
    if "kernels" in recorded:
        return "levels/compiled" if recorded["kernels"] == "compiled" else config.engine
    if isinstance(model.cell, Encoder):
        return config.engine
    steps = config.schedule.epochs * math.ceil(len(train_set) / config.batch_size)
    if config.engine == "topo" or config.compile == "off" or (config.compile == "auto" and steps < LONG):
        return config.engine
    if not has_compiler():
        if config.compile == "on":
            raise ConfigurationError(
                "compile = 'on' needs a C++ compiler and Python.h. Install g++ and Python's headers, or take 'off'."
            )
        return config.engine
    fault = _fault_of_native_code(model, train_set, config.batch_size, device)
    if not fault:
        return "levels/compiled"
    if config.compile == "on":
        raise ConfigurationError(f"{type(model.cell).__name__} cannot be compiled ({fault}). Take compile = 'off'.")
    logger.warning("%s cannot be compiled (%s); it runs as it is.", type(model.cell).__name__, fault)
    return config.engine


def _fault_of_native_code(model: Model, train_set: Dataset, size: int, device: torch.device) -> str:
    """What keeps native code from the loss and the gradients of the steps as they are, on a first batch and on one equation;
    empty where nothing does."""
    logger.info("compiling kernels for %s", type(model.cell).__name__)
    try:
        for count in (size, 1):
            batch = train_set.batch(np.arange(min(count, len(train_set))), device)
            wanted, found = (_gradients(model, batch, engine) for engine in ("levels", "levels/compiled"))
            if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(wanted, found, strict=True)):
                return "native code has other numbers"
    except Exception as error:  # whatever a cell of somebody's own may do that a tracer cannot follow
        return str(error) or type(error).__name__
    finally:
        model.zero_grad(set_to_none=True)
    return ""


def _gradients(model: Model, batch: Batch, engine: str) -> list[Tensor]:
    """The loss of a batch and its gradients."""
    model.zero_grad(set_to_none=True)
    output = model(batch, engine, generator=torch.Generator().manual_seed(0))
    loss = model.losses(output, batch).mean()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]
