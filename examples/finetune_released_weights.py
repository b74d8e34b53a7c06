"""Fine-tune released weights: those of the package, or the authors' after `treestack import-authors`.

treestack import-authors exp_lstm_drop0.1_hidden50_12093-model-68.checkpoint --output-dir runs/released-lstm
python examples/finetune_released_weights.py runs/released-lstm --steps 300
"""

from typing import Annotated

import torch
import tyro
from torch.nn.functional import binary_cross_entropy_with_logits

from dgl_treestack import GraphDataLoader, Model, TreeDataset, load


@torch.no_grad()
def accuracy(model: Model, data: TreeDataset) -> float:
    """Per cent of equations that are judged correctly."""
    model.eval()
    loader = GraphDataLoader(data, batch_size=256, collate_fn=data.collate)
    right = torch.cat([(model(graph, task="verification") > 0) == (target > 0.5) for graph, target in loader])
    return 100 * right.float().mean().item()


def main(
    weights: Annotated[str, tyro.conf.Positional] = "tree_smu", steps: int = 300, rate: float = 1e-4, batch_size: int = 32
) -> None:
    """weights: the folder of a run, or a model of the package. Operators are trained, the embedding of leaves is frozen."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = load(weights)
    train, validation = (
        TreeDataset(f"bundled:quickstart/{fold}", vocabulary=model.vocabulary) for fold in ("train", "validation")
    )
    print(f"{weights} before: {accuracy(model, validation):.1f} % of {len(validation)} validation equations")
    model.tree_cell.leaves.requires_grad_(False)
    optimizer = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad], lr=rate)
    loader = GraphDataLoader(train, batch_size=batch_size, shuffle=True, collate_fn=train.collate)
    step = 0
    while step < steps:
        for graph, target in loader:
            loss = binary_cross_entropy_with_logits(model.train()(graph, task="verification"), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0 or step == steps:
                print(f"step {step}: loss {loss.item():.3f}")
            if step == steps:
                break
    print(f"after: {accuracy(model, validation):.1f} %")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
