"""The choice of a run's engine: native code for long runs, where it is possible and gives the same gradients."""

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.propagate.compiled.library import unavailable
from dgl_treestack.runs.configuration import RunConfig
from dgl_treestack.sequence.encoders import Encoder

logger = logging.getLogger(__name__)
# Minimum steps for which compiling pays: it takes up to two minutes, once (Tree-SMU 30 to 60 s), and saves 3 to 6 ms a step
# of Tree-SMU at batch 32.
LONG = 10_000


def choose_engine(
    config: RunConfig, model: Model, train_set: Dataset, recorded: Mapping[str, Any], device: torch.device
) -> str:
    """Return the engine of a run: the one in its environment, else the one that `compile` asks for.

    recorded: the run's environment, empty for a new run. Raises ConfigurationError if `compile` is on and there is no compiler,
    or native code gives other gradients.
    """
    if "kernels" in recorded:
        return "levels/compiled" if recorded["kernels"] == "compiled" else config.engine
    steps = config.schedule.epochs * math.ceil(len(train_set) / config.batch_size)
    is_short = config.compile == "auto" and steps < LONG
    if isinstance(model.cell, Encoder) or config.engine == "topo" or config.compile == "off" or is_short:
        return config.engine
    name = type(model.cell).__name__
    if reason := unavailable():
        fault = f"no native code: {reason}; it needs g++, Python's headers and a folder"
    elif reason := _fault_of_native_code(model, train_set, config.batch_size, device):
        fault = f"{name} cannot be compiled ({reason})"
    else:
        return "levels/compiled"
    if config.compile == "on":
        raise ConfigurationError(f"{fault}. Provide what is missing, or set compile = 'off'.")
    logger.warning("%s; the run uses the engine levels", fault)
    return config.engine


def _fault_of_native_code(model: Model, train_set: Dataset, size: int, device: torch.device) -> str:
    """Return why native code cannot replace the engine `levels`, as text; empty if it can.

    Compares losses and gradients of both engines on the first batch and on a single equation.
    """
    logger.info("compiling kernels for %s", type(model.cell).__name__)
    try:
        # A single equation, too: native code once misread the strides that a single row can have.
        for count in (size, 1):
            batch = train_set.batch(np.arange(min(count, len(train_set))), device)
            results = []
            for engine in ("levels", "levels/compiled"):
                model.zero_grad(set_to_none=True)
                output = model(batch, engine, generator=torch.Generator().manual_seed(0))
                loss = model.losses(output, batch).mean()
                loss.backward()
                gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
                results.append([loss.detach(), *gradients])
            if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*results, strict=True)):
                return "native code gives other gradients"
    except Exception as error:  # a user's cell may do anything that the tracer cannot follow
        return str(error) or type(error).__name__
    finally:
        model.zero_grad(set_to_none=True)
    return ""
