"""Where a model is wrong: its accuracy on the equations of a file that have an operator, and that have not.

python examples/errors_by_operator.py tree_slots --data data/deep/test.jsonl.gz --min-depth 8
"""

import random
from collections import defaultdict
from typing import Annotated

import torch
import tyro

from dgl_treestack import Example, load
from dgl_treestack.data import formats


def main(
    model: Annotated[str, tyro.conf.Positional] = "tree_smu",
    data: str = "bundled:quickstart/test",
    min_depth: int = 1,
    most: int = 20_000,
) -> None:
    """model: the folder of a run, or a model of the package. data: labelled equations. most: of them, drawn at random."""
    torch.set_num_threads(1)
    examples: list[Example] = [e for e in formats.read_examples([data]) if e.equation.depth >= min_depth]
    examples = random.Random(0).sample(examples, min(most, len(examples)))  # a stride would take one member of every pair
    labels = torch.tensor([example.label == 1 for example in examples])
    right = ((load(model).score([example.equation for example in examples]) > 0) == labels).tolist()
    right_by_operator: dict[str, list[bool]] = defaultdict(list)
    for example, is_right in zip(examples, right, strict=True):
        for name, text in set(zip(example.equation.names[1:], example.equation.texts[1:], strict=True)):
            if text is None:
                right_by_operator[name].append(is_right)
    accuracy = {name: sum(answers) / len(answers) for name, answers in right_by_operator.items()}
    print(f"{model}: {100 * sum(right) / len(right):.1f} % of {len(right)} equations")
    for label, name in ((1, "true"), (0, "false")):
        answers = [is_right for example, is_right in zip(examples, right, strict=True) if example.label == label]
        print(f"  {name + ' ones':<10} {100 * sum(answers) / max(1, len(answers)):5.1f} % of {len(answers)}")
    for name in sorted(accuracy, key=lambda name: accuracy[name]):
        answers = right_by_operator[name]
        without = (sum(right) - sum(answers)) / max(1, len(right) - len(answers))
        print(f"  {name:<10} {100 * accuracy[name]:5.1f} % of {len(answers):>6} with it, {100 * without:5.1f} % without")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
