"""Tensors in files: safetensors with a JSON description, written atomically. Nothing here can run code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from dgl_treestack import atomic
from dgl_treestack.errors import CheckpointError


def write(path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """One file with all tensors; the description travels in its header."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    atomic.write_bytes(path, safetensors.torch.save(contiguous, {"description": json.dumps(description)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description of a file. Raises CheckpointError."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("description", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, description  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist. Is the run trained?") from None
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error}). Copy it again or train anew.") from None


def load_into(module: Any, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Put tensors into a module by name. Raises CheckpointError that names what does not fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [
        f"{name} {given.get(name, 'missing')}" for name in sorted({*wanted, *given}) if wanted.get(name) != given.get(name)
    ]
    if wrong:
        raise CheckpointError(f"{origin} does not fit the model of its configuration: {', '.join(wrong[:5])}.")
    module.load_state_dict(dict(tensors))
