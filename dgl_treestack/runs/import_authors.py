"""Import of the authors' released weights as an ordinary run folder.

A released checkpoint is a legacy pickle of tensors without a configuration. Its keys and shapes give class and sizes; stack
size and activations are not in the file, so a named preset supplies those of the authors' scripts.
This is the only module that calls `torch.load`, always with `weights_only=True`.
"""

import hashlib
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgl_treestack.errors import CheckpointError, ConfigurationError, unknown
from dgl_treestack.expression.operators import MATH
from dgl_treestack.model.model import Model
from dgl_treestack.runs.run import Run
from dgl_treestack.runs.weights import load_into

MAX_EXPANSION, HARMLESS = 10, 100_000_000  # of an archive: largest ratio of its contents to its size, beyond so many bytes
_NUMBERS = {"Number_enc": "cell.leaves.number", "Number_dec": "heads.function_evaluation.decoder"}
LEAF_AND_HEADS = {"bias": "heads.verification.bias", "Symbol.weight": "cell.leaves.table"} | {
    f"{theirs}.linear{layer}.{kind}": f"{ours}{layer}.{kind}"
    for theirs, ours in _NUMBERS.items()
    for layer in (1, 2)
    for kind in ("weight", "bias")
}


class Block(NamedTuple):
    """Rows of one of our fused matrices, as the authors' tensor names, in which `{0}` stands for the operator.

    weights: the matrices to concatenate, one, or one per child. bias: the bias.
    """

    weights: Sequence[str]
    bias: str


class Family(NamedTuple):
    """One of the authors' classes.

    mark: a key that only its checkpoints have. model: our model. product: the model's product. blocks: the rows of the product
    by arity, in our order.
    """

    mark: str
    model: str
    product: str
    blocks: Mapping[int, Sequence[Block]]


_GATES = ("_stack.input", ".o", "_stack.push_gate", "_stack.pop_gate", "_stack.no_op_gate")
_SMU = [Block([f"{{0}}{gate}_linear.weight"], f"{{0}}{gate}_linear.bias") for gate in _GATES]
_SMU_1 = [Block(["{0}_stack.gate_linear.weight"], "{0}_stack.gate_linear.bias")]
_SMU_2 = [Block([f"{{0}}_stack.gate_linear_{side}.weight"], f"{{0}}_stack.gate_linear_{side}.bias") for side in "lr"]
_SIDES = ("left", "right")
_LSTM_BINARY = [
    *(Block([f"{{0}}.{gate}_{side}.weight" for side in _SIDES], f"{{0}}.{gate}_bias") for gate in ("data", "output", "input")),
    *(Block([f"{{0}}.forget_{gate}_by_{side}.weight" for side in _SIDES], f"{{0}}.forget_bias_{gate}") for gate in _SIDES),
]
_LSTM_UNARY = [Block([f"{{0}}.{gate}.weight"], f"{{0}}.{gate}.bias") for gate in ("data", "output", "input", "forget")]
_RNN = [Block(["{0}.linear.weight"], "{0}.linear.bias")]
FAMILIES = (
    Family("sin_stack.push_gate_linear.weight", "tree_smu_released", "gates", {1: [*_SMU, *_SMU_1], 2: [*_SMU, *_SMU_2]}),
    Family("sin.data.weight", "tree_lstm_released", "gates", {1: _LSTM_UNARY, 2: _LSTM_BINARY}),
    Family("sin.linear.weight", "tree_rnn_released", "state", {1: _RNN, 2: _RNN}),
)

# Settings that are not in the files. The authors' scripts train with a stack of 5, tanh in stack models, sigmoid in Tree-RNN.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "scripts": {
        "tree_smu_released": {"stack_size": 5, "activation": "tanh"},
        "tree_lstm_released": {},
        "tree_rnn_released": {"activation": "sigmoid"},
    }
}


def import_checkpoint(checkpoint: Path, folder: Path, preset: str = "scripts", stack_size: int | None = None) -> Run:
    """Make a run folder of a released model.

    preset: settings that the file does not contain, by name in `PRESETS`. stack_size: overrides the preset's. Both are
    recorded. Raises CheckpointError for a file that is no released model, ConfigurationError for an unknown preset or a folder
    that is not empty.
    """
    if preset not in PRESETS:
        raise ConfigurationError(unknown("preset", preset, PRESETS))
    released = read_checkpoint(checkpoint)
    family = next((family for family in FAMILIES if family.mark in released and "Symbol.weight" in released), None)
    if family is None:
        marks = ", ".join(family.mark for family in FAMILIES)
        raise CheckpointError(f"{checkpoint} is none of the released classes; none of {marks} is in it.")
    hidden = released["Symbol.weight"].shape[1]
    settings = dict(PRESETS[preset][family.model])
    if stack_size is not None and "stack_size" in settings:
        settings["stack_size"] = stack_size
    model = Model.build(family.model, hidden, "released", ("function_evaluation", "verification"), **settings)
    load_into(model, translate(released, family), checkpoint)  # raises when a tensor does not fit
    checksum = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    return Run.of_model(folder, model, {}, imported_from=checkpoint.name, sha256=checksum, preset=preset)


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a legacy checkpoint by name, without running code in it. Raises CheckpointError."""
    loaded: Any = None
    fault = ""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
            if size > HARMLESS and size > MAX_EXPANSION * path.stat().st_size:
                fault = f"is refused: it expands to {size} bytes, {MAX_EXPANSION} times its size or more."
        if not fault:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about pickle protocols; a file that cannot be read safely is a fault
                loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        fault = "does not exist."
    except Exception as error:  # a damaged pickle may raise anything
        # torch's own message recommends loading without the safeguard, so it is not repeated
        fault = f"is refused: it is not a plain file of weights ({type(error).__name__}), and nothing in it was run. "
        fault += "Give a released `-model-` file."
    if not fault and not (isinstance(loaded, Mapping) and all(isinstance(value, Tensor) for value in loaded.values())):
        fault = "holds no weights by name. Give the `-model-` file, not the `-optim-` one."
    for name, value in () if fault else loaded.items():
        # An expanded tensor claims more numbers than the file has: copied, it would fill the memory.
        is_plain = value.layout == torch.strided and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
        if not (is_plain and value.is_floating_point() and value.isfinite().all()):
            fault = f"has numbers of type {value.dtype} in the tensor {name!r}, or not all are finite and stored."
    if fault:
        raise CheckpointError(f"{path} {fault}")
    return dict(loaded)


def translate(released: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Concatenate the released tensors to ours, by our names. Raises CheckpointError for a missing one."""
    try:
        tensors = {ours: released[theirs] for theirs, ours in LEAF_AND_HEADS.items()}
        for operator in MATH.inner:
            blocks = family.blocks[operator.arity or 1]
            rows = [torch.cat([released[name.format(operator.name)] for name in block.weights], 1) for block in blocks]
            biases = [released[block.bias.format(operator.name)] for block in blocks]
            prefix = f"cell.products.{family.product}"
            tensors[f"{prefix}.weight_{operator.name}"] = torch.cat(rows)
            tensors[f"{prefix}.bias_{operator.name}"] = torch.cat(biases)
    except KeyError as error:
        raise CheckpointError(f"The checkpoint has no tensor {error}.") from None
    return tensors
