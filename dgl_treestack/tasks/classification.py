"""Classification: which class of its language does a tree belong to?"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dgl_treestack.data.formats import Example
from dgl_treestack.errors import ConfigurationError, DataError, unknown
from dgl_treestack.expression.operators import Label
from dgl_treestack.plain_data import number
from dgl_treestack.tasks import Item, NodeStates, Task


class Classification(Task):
    """A linear layer and a softmax over the K classes of the language, on the state of the root:

        P(class) = softmax(W h + b)

    Shapes: W (K, H), b (K,); outputs (B, K) before the softmax. The loss is the cross entropy, times the weight of the label's
    class if there are class weights. An output is correct if its largest number is that of the label's class.
    """

    class_weights: Tensor | None

    name = "classification"
    has_classes = True

    def __init__(self, hidden: int, *, classes: tuple[str, ...], class_weights: Mapping[str, float] | None = None):
        super().__init__()
        self.classes = classes
        self.decoder = nn.Linear(hidden, len(classes))
        weights = class_weights or {}
        for name, weight in weights.items():
            if name not in classes:
                raise ConfigurationError("model.class_weights: " + unknown("class", name, classes))
            number(weight, f"model.class_weights.{name}", 0.0, math.inf)
        of_classes = torch.tensor([float(weights.get(name, 1.0)) for name in classes]) if weights else None
        self.register_buffer("class_weights", of_classes, persistent=False)

    def prepare(self, example: Example) -> Item:
        return Item(example.equation, self.target(example.label, example.source))

    def target(self, label: Label, source: str) -> float:
        """Return the index of the class of a label, NaN if it is unknown. Raises DataError with the source of the example."""
        if label is None:
            return math.nan
        if label not in self.classes:
            raise DataError(unknown("class", str(label), self.classes), source or None)
        return float(self.classes.index(str(label)))

    def forward(self, h: NodeStates, roots: Tensor, sides: Tensor) -> Tensor:
        return self.decoder(h(roots))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        weights = None if self.class_weights is None else self.class_weights.to(output)
        losses = functional.cross_entropy(output, target.nan_to_num().long(), weights, reduction="none")
        return torch.where(target.isnan(), target, losses)

    def correct(self, output: Tensor, target: Tensor) -> Tensor:
        return output.argmax(1) == target

    def record(self, example: Example, item: Item, output: float | list[float]) -> dict[str, Any]:
        assert isinstance(output, list)
        answer = max(range(len(output)), key=output.__getitem__)
        return {"predicted": self.classes[answer], "scores": output}


TASK = Classification
