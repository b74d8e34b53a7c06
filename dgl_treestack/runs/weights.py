"""Tensors in files: safetensors with a JSON description, written atomically. No content of a file can run code."""

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
    """Write tensors to one file, with the description in its header."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    atomic.write_bytes(path, safetensors.torch.save(contiguous, {"description": json.dumps(description)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the description of a file. Raises CheckpointError."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {}).get("description", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, description  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist. Is the run trained?") from None
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error}). Copy it again or train anew.") from None


def load_into(module: Any, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Load tensors into a module by name. Raises CheckpointError that names the tensors that do not fit.

    origin: the file that the tensors come from, for the error.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [
        f"{name} {shapes.get(name, 'missing')}"
        for name in sorted({*expected, *shapes})
        if expected.get(name) != shapes.get(name)
    ]
    if wrong:
        raise CheckpointError(f"{origin} does not fit the model of its configuration: {', '.join(wrong[:5])}.")
    module.load_state_dict(dict(tensors))
