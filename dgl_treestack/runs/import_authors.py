"""The authors' released weights as an ordinary run folder.

A checkpoint of theirs is a legacy pickle of tensors without a configuration. The class and the sizes are read off its keys and
shapes; the stack size and the activations are not in the file, so a preset by name supplies them, the one of their scripts.
This is the only module that calls `torch.load`, always with `weights_only=True`.
"""

import hashlib
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgl_treestack import atomic
from dgl_treestack.errors import CheckpointError, ConfigurationError, unknown
from dgl_treestack.expression.operators import MATH
from dgl_treestack.runs import environment, weights
from dgl_treestack.runs.configuration import ModelConfig, RunConfig
from dgl_treestack.runs.run import Run, build_model

LEAF_AND_HEADS = {
    "bias": "heads.verification.bias",
    "Symbol.weight": "cell.leaves.table",
    "Number_enc.linear1.weight": "cell.leaves.number1.weight",
    "Number_enc.linear1.bias": "cell.leaves.number1.bias",
    "Number_enc.linear2.weight": "cell.leaves.number2.weight",
    "Number_enc.linear2.bias": "cell.leaves.number2.bias",
    "Number_dec.linear1.weight": "heads.function_evaluation.decoder1.weight",
    "Number_dec.linear1.bias": "heads.function_evaluation.decoder1.bias",
    "Number_dec.linear2.weight": "heads.function_evaluation.decoder2.weight",
    "Number_dec.linear2.bias": "heads.function_evaluation.decoder2.bias",
}


@dataclass(frozen=True)
class Block:
    """A block of rows of one of our products: the authors' matrices side by side (one, or one per child) and their bias."""

    weights: Sequence[str]
    bias: str


@dataclass(frozen=True)
class Family:
    """One class of the authors: the key that gives it away, our model, the product, and its blocks by arity, in our order."""

    mark: str
    model: str
    product: str
    blocks: Mapping[int, Sequence[Block]]


def _linear(module: str) -> Block:
    return Block([f"{module}.weight"], f"{module}.bias")


def _by_child(name: str, bias: str) -> Block:
    sides = ("by_left", "by_right") if name.startswith("forget") else ("left", "right")
    return Block([f"{{0}}.{name}_{side}.weight" for side in sides], f"{{0}}.{bias}")


_SMU = [
    _linear("{0}_stack.input_linear"),
    _linear("{0}.o_linear"),
    _linear("{0}_stack.push_gate_linear"),
    _linear("{0}_stack.pop_gate_linear"),
    _linear("{0}_stack.no_op_gate_linear"),
]
FAMILIES = (
    Family(
        "sin_stack.push_gate_linear.weight",
        "tree_smu_released",
        "gates",
        {
            1: [*_SMU, _linear("{0}_stack.gate_linear")],
            2: [*_SMU, _linear("{0}_stack.gate_linear_l"), _linear("{0}_stack.gate_linear_r")],
        },
    ),
    Family(
        "sin.data.weight",
        "tree_lstm_released",
        "gates",
        {
            1: [_linear(f"{{0}}.{gate}") for gate in ("data", "output", "input", "forget")],
            2: [
                *(_by_child(gate, f"{gate}_bias") for gate in ("data", "output", "input")),
                *(_by_child(f"forget_{side}", f"forget_bias_{side}") for side in ("left", "right")),
            ],
        },
    ),
    Family(
        "sin.linear.weight",
        "tree_rnn_released",
        "state",
        {1: [_linear("{0}.linear")], 2: [_linear("{0}.linear")]},
    ),
)

# What the files do not say. The scripts of the release train with a stack of 5, tanh in stack models, sigmoid in Tree-RNN.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "scripts": {
        "tree_smu_released": {"stack_size": 5, "activation": "tanh"},
        "tree_lstm_released": {},
        "tree_rnn_released": {"activation": "sigmoid"},
    }
}


def import_checkpoint(checkpoint: Path, folder: Path, preset: str = "scripts", stack_size: int | None = None) -> Run:
    """Make a run folder of a released model. `stack_size` replaces the preset's; both are recorded.

    Raises CheckpointError for a file that is no such model, ConfigurationError for an unknown preset or a folder in use.
    """
    if preset not in PRESETS:
        raise ConfigurationError(unknown("preset", preset, PRESETS))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists and is not empty. Choose another --output-dir.")
    released = read_checkpoint(checkpoint)
    family = _family(released, checkpoint)
    hidden = released["Symbol.weight"].shape[1]
    settings = dict(PRESETS[preset][family.model])
    if stack_size is not None and "stack_size" in settings:
        settings["stack_size"] = stack_size
    model = ModelConfig(
        family.model,
        hidden,
        vocabulary="released",
        tasks=("function_evaluation", "verification"),
        settings=settings,
    )
    origin = {
        "imported_from": checkpoint.name,
        "sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
        "preset": preset,
    }
    tensors = translate(released, family)
    weights.load_into(build_model(model), tensors, checkpoint)  # says so when something does not fit
    config = RunConfig(f"released-{family.model}", model)
    run = Run.create(folder, config, 0, {**environment.describe("cpu"), **origin})
    weights.write(run.best, tensors, {"epoch": None, **origin})
    atomic.write_text(run.done, "imported\n")
    return run


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The tensors of a legacy checkpoint, by their released names. Raises CheckpointError; no code in the file is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols; what cannot be read safely is an error below
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist.") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        # torch's own message advises to load without the safeguard; nobody should
        raise CheckpointError(
            f"{path} is refused: it is not a plain file of weights ({type(error).__name__}), and nothing in it was run. "
            f"Give a released `-model-` file."
        ) from None
    if not isinstance(loaded, Mapping) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise CheckpointError(f"{path} holds no weights by name. Give the `-model-` file, not the `-optim-` one.")
    return dict(loaded)


def _family(released: Mapping[str, Tensor], path: Path) -> Family:
    for family in FAMILIES:
        if family.mark in released and "Symbol.weight" in released:
            return family
    raise CheckpointError(
        f"{path} is none of the released classes; none of {', '.join(family.mark for family in FAMILIES)} is in it."
    )


def translate(released: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Our tensors by our names. Raises CheckpointError for a missing one."""
    try:
        tensors = {ours: released[theirs] for theirs, ours in LEAF_AND_HEADS.items()}
        for operator in MATH.inner:
            blocks = family.blocks[operator.arity or 1]
            names = [[name.format(operator.name) for name in block.weights] for block in blocks]
            prefix = f"cell.products.{family.product}"
            tensors[f"{prefix}.weight_{operator.name}"] = torch.cat(
                [torch.cat([released[name] for name in side_by_side], 1) for side_by_side in names]
            )
            tensors[f"{prefix}.bias_{operator.name}"] = torch.cat(
                [released[block.bias.format(operator.name)] for block in blocks]
            )
    except KeyError as error:
        raise CheckpointError(f"The checkpoint has no tensor {error}.") from None
    return tensors
