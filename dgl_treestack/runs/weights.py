"""Weights in safetensors files, which cannot run code, and into modules."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgl_treestack import atomic
from dgl_treestack.errors import CheckpointError
from dgl_treestack.plain_data import read_json

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUM = "sha256 of content"  # the key of the checksum in a description


def read_weights(path: Path) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """Return the tensors and the description of a safetensors file, which cannot run code.

    Raises CheckpointError for a damaged file: one whose checksum, which files of earlier versions lack, is another.
    """
    with opened(path, "pt") as file:
        description, _ = read_json((file.metadata() or {}).get("description", "{}"))
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if isinstance(description, dict) and CHECKSUM in description:
        checksum = description.pop(CHECKSUM)
        if checksum != _checksum(tensors, description):
            raise CheckpointError(f"{path} is damaged: its content does not fit its checksum. Copy it or train again.")
    return tensors, description


def _checksum(tensors: "Mapping[str, Tensor]", description: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a description and of all tensors: names, types, shapes and contents, in the order of the names."""
    import torch

    checksum = hashlib.sha256(json.dumps(description).encode())
    for name, tensor in sorted(tensors.items()):  # a file may have them in another order
        checksum.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        checksum.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return checksum.hexdigest()


@contextmanager
def opened(path: Path, framework: str) -> Iterator[Any]:
    """Open a safetensors file. Raises CheckpointError for one that is missing or damaged."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework=framework) as file:
            yield file
    except (OSError, safetensors.SafetensorError, ValueError) as error:
        is_absent, other = isinstance(error, FileNotFoundError), f"is not a safetensors file ({error}). Copy it or train again."
        raise CheckpointError(f"{path} {'does not exist. Is the run trained?' if is_absent else other}") from None


def load_into(module: Any, tensors: "Mapping[str, Tensor]", origin: Path, *, finite: bool = True) -> None:
    """Load tensors into a module by name. Raises CheckpointError that names the tensors that do not fit.

    origin: the file of the tensors, for the error. finite: whether all have to be finite numbers.
    """
    expected, shapes = ({name: tuple(t.shape) for name, t in these.items()} for these in (module.state_dict(), tensors))
    wrong = [name for name in sorted({*expected, *shapes}) if expected.get(name) != shapes.get(name)]
    if finite and not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        fault = "holds numbers that are not finite. The run has diverged or the file is damaged; train again"
    elif wrong:
        listed = ", ".join(f"{name} {shapes.get(name, 'missing')}" for name in wrong[:5])
        fault = f"does not fit the model of its configuration: {listed}"
    else:
        module.load_state_dict(dict(tensors))
        return
    raise CheckpointError(f"{origin} {fault}.")


def write_weights(path: Path, tensors: "Mapping[str, Tensor]", description: Mapping[str, Any]) -> None:
    """Write tensors to a safetensors file, atomically, with the description as JSON and a checksum in its header."""
    import safetensors.torch

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    described = {**description, CHECKSUM: _checksum(contiguous, description)}  # one entry: several would be in any order
    atomic.write_bytes(path, safetensors.torch.save(contiguous, {"description": json.dumps(described)}))
