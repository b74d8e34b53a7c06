"""Train Tree-SMU on the bundled equations with a plain torch loop, and draw its accuracy by depth.

python examples/train_tree_smu.py --epochs 15 --output tree_smu.png
"""

import copy
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import tyro
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import Subset
from tqdm.auto import tqdm

from dgl_treestack import GraphDataLoader, Model, TreeDataset


def up_to_depth(data: TreeDataset, depth: int, most: int) -> Subset:
    """The first `most` trees of at most this depth."""
    indices = [i for i, depth_of_tree in enumerate(data.depths) if depth_of_tree <= depth]
    return Subset(data, indices[:most])


@torch.no_grad()
def accuracy_by_depth(model: Model, data: TreeDataset, batch_size: int = 256) -> dict[int, float]:
    """Per cent of right answers by depth; the key -1 is for all depths."""
    model.eval()
    right = []
    for graph, target in GraphDataLoader(data, batch_size=batch_size, collate_fn=data.collate):
        right.append((model(graph) > 0) == (target > 0.5))
    is_right, depths = torch.cat(right).float(), torch.from_numpy(data.depths)
    by_depth = {int(depth): 100 * is_right[depths == depth].mean().item() for depth in depths.unique()}
    return {-1: 100 * is_right.mean().item(), **by_depth}


def train_epoch(model: Model, loader: GraphDataLoader, optimizer: torch.optim.Optimizer) -> float:
    """One pass over the training data. Returns the mean loss."""
    model.train()
    losses = []
    for graph, target in tqdm(loader, leave=False, disable=None):
        loss = binary_cross_entropy_with_logits(model(graph), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main(epochs: int = 15, most: int = 10**6, hidden: int = 50, seed: int = 0, output: Path = Path("tree_smu.png")) -> None:
    """Train, keep the epoch with the best validation accuracy, test it. most: maximum number of training equations."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    train, validation, test = (TreeDataset(f"bundled:quickstart/{fold}") for fold in ("train", "validation", "test"))
    loader = GraphDataLoader(up_to_depth(train, 7, most), batch_size=32, shuffle=True, collate_fn=train.collate)
    model = Model.build("tree_smu", hidden, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    best, best_state = -1.0, model.state_dict()
    for epoch in range(1, epochs + 1):
        loss = train_epoch(model, loader, optimizer)
        accuracy = accuracy_by_depth(model, validation)[-1]
        print(f"epoch {epoch:>2}: training loss {loss:.3f}, validation accuracy {accuracy:.1f} %", flush=True)
        if accuracy > best:
            best, best_state = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    curve = accuracy_by_depth(model, test)
    print(f"best validation accuracy {best:.1f} %, test accuracy {curve.pop(-1):.1f} %")
    plt.plot(list(curve), list(curve.values()), marker="o", label=f"Tree-SMU, seed {seed}")
    plt.axhline(50, color="0.6", linewidth=1, label="chance")
    plt.xlabel("depth (trained on 1-7)")
    plt.ylabel("test accuracy, per cent")
    plt.legend()
    plt.savefig(output)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
