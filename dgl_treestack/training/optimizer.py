"""The optimizer of trees, where operators are absent from batches: Adam, Muon, or any class of `torch.optim`."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn, optim

from dgl_treestack.cells import OperatorLinear
from dgl_treestack.errors import ConfigurationError, unknown
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.training.muon import Adam, Muon
from dgl_treestack.training.objective import optimizer_tensors, restore_optimizer

_UNSUITED = ("Optimizer", "LBFGS", "SparseAdam")  # need more than gradients of all numbers


class RowOptimizer:
    """An optimizer of torch over the rows of a module: parameters, of which those of operators are divided by operator.

    With gradients `zeros`, a row that was ever used keeps a gradient of zeros and is updated at every step, so momentum and
    weight decay continue; with `none` its gradient is None while its operator is absent, and it stays unchanged.

    method: `adam`, `muon`, or the name of a class of `torch.optim`, which gets the learning rate, the weight decay if it takes
    one, and `settings`. undecayed: names of parameters without weight decay.
    Raises ConfigurationError for an unknown method, and for settings that the class refuses.
    """

    def __init__(self, module: nn.Module, config: OptimizerConfig, undecayed: Collection[str] = ()):
        self.keeps_zeros, self.learning_rate = config.gradients == "zeros", config.learning_rate
        # Rows share the memory of stacked parameters. As some 89 tensors of their own they were stacked at every sweep
        # on a GPU; a step takes 0.76 to 1.03 times as long as then (three models, batch 32, 256, 1,024).
        self.stacks: list[tuple[OperatorLinear, Tensor, list[tuple[str, Tensor]]]] = []  # with the keys and rows of a parameter
        self.rows: dict[str, Tensor] = {}  # by their names in `state_dict`
        for prefix, part in module.named_modules():
            names: dict[str, Tensor] = dict(part.named_parameters(recurse=False))
            if isinstance(part, OperatorLinear):
                names = {name: row.requires_grad_(part.tensors()[0].requires_grad) for name, row in part.rows().items()}
                for suffix, keys in part.stacks.items():
                    for kind, stack in zip(("weight", "bias"), part.stack(suffix), strict=True):
                        if stack is not None:
                            self.stacks.append((part, stack, [(key, names[f"{kind}_{key}"]) for key in keys]))
            self.rows.update({f"{prefix}.{name}".lstrip("."): row for name, row in names.items()})
        self.parameters = list(self.rows.values())
        self.recorded: tuple[list[Tensor], Tensor] = (
            [],
            torch.empty(0),
        )  # rows of a recorded step, and how often each is updated
        classes = {name: kind for name, kind in vars(optim).items() if isinstance(kind, type) and name not in _UNSUITED}
        methods: dict[str, Any] = {"adam": Adam, "muon": Muon, **classes}
        if config.method not in methods:
            raise ConfigurationError(unknown("optimizer", config.method, methods))
        settings: dict[str, Any] = {"lr": config.learning_rate, **config.settings}
        if config.method in ("adam", "muon"):
            settings |= {"betas": (config.beta1, config.beta2), "eps": config.epsilon}
        groups: dict[tuple[float, bool], list[Tensor]] = {}
        for name, row in self.rows.items():
            decay = 0.0 if name in undecayed else config.weight_decay
            groups.setdefault((decay, name.startswith("cell.leaves.")), []).append(row)
        described = [{"params": rows, "weight_decay": decay, "tables": tables} for (decay, tables), rows in groups.items()]
        try:
            self.optimizer: optim.Optimizer = methods[config.method](described, **settings)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"'optimizer.settings' do not fit {config.method!r}: {error}.") from None

    def zero(self) -> None:
        """Zero all gradients, or set them to None, as configured."""
        for linear, stack, _ in self.stacks:
            linear.used.clear()
            stack.grad = None
        for row in self.parameters:
            if not self.keeps_zeros:
                row.grad = None
            elif row.grad is not None:
                row.grad.zero_()

    def collect(self) -> None:
        """Divide the gradients of the backward pass by operator; those of absent operators are None or zeros."""
        for linear, stack, keys_and_rows in self.stacks:
            if stack.grad is not None:
                for (key, row), gradient in zip(keys_and_rows, stack.grad.unbind(), strict=True):
                    if key in linear.used:
                        row.grad = gradient

    def step(self, rate: float | None = None) -> None:
        """Update every row that has a gradient. rate: the learning rate, by default `learning_rate`."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate if rate is None else rate
        self.optimizer.step()

    def tensors(self) -> dict[str, Tensor]:
        """Return the state: `<kind>/<row>` for every row that was ever updated."""
        unused = {id(row) for row, count in zip(self.recorded[0], self.recorded[1].tolist(), strict=True) if not count}
        return optimizer_tensors(self.optimizer, {name: row for name, row in self.rows.items() if id(row) not in unused})

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load a saved state; with gradients `zeros`, rows that were ever updated get a gradient of zeros."""
        restore_optimizer(self.optimizer, self.rows, tensors)
        for row in self.optimizer.state:
            row.grad = torch.zeros_like(row) if self.keeps_zeros else None
