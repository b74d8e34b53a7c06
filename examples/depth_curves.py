"""Accuracy by depth of several models on one file: runs, and the pretrained model of the package.

python examples/depth_curves.py tree_smu runs/quickstart-tree_lstm-0 --output depth_curves.png
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import torch
import tyro

from dgl_treestack import GraphDataLoader, Model, TreeDataset, load


@torch.no_grad()
def answers(model: Model, data: TreeDataset) -> np.ndarray:
    """(trees,) whether each answer is right."""
    loader = GraphDataLoader(data, batch_size=256, collate_fn=data.collate)
    return torch.cat([(model(graph) > 0) == (target > 0.5) for graph, target in loader]).numpy()


def main(
    models: Annotated[tuple[str, ...], tyro.conf.Positional] = ("tree_smu",),
    data: str = "bundled:quickstart/test",
    output: Path = Path("depth_curves.png"),
) -> None:
    """models: folders of runs, or names of models of the package. data: a file of labelled equations."""
    torch.set_num_threads(1)
    for name in models:
        model = load(name)
        trees = TreeDataset(data, vocabulary=model.vocabulary)
        right, depths = answers(model, trees), trees.depths
        levels = np.unique(depths)
        mean = np.array([right[depths == depth].mean() for depth in levels])
        error = np.sqrt(mean * (1 - mean) / np.array([(depths == depth).sum() for depth in levels]))
        print(f"{name}: {100 * right.mean():.1f} % of {len(right)} equations")
        for depth, share, deviation in zip(levels, mean, error, strict=True):
            print(f"  depth {depth:>2}: {100 * share:5.1f} % ± {100 * deviation:.1f}")
        plt.errorbar(levels, 100 * mean, 100 * error, marker="o", capsize=3, label=Path(name).name)
    plt.axhline(50, color="0.6", linewidth=1, label="chance")
    plt.xlabel("depth")
    plt.ylabel("right, per cent (bars: standard error)")
    plt.legend()
    plt.savefig(output)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
