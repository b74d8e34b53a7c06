"""One epoch of training, loading included, and one evaluation of all equations of the file, in CPU time of one thread.

python -m benchmarks.epoch [--data data/paper/train.jsonl.gz] [--batch 32] [--most-nodes 15 --equations 27207] [--json]
    [--engines levels levels/compiled]
python -m benchmarks.epoch --language logic --data data/logic/train.jsonl.gz --cell tree_lstm --batch 64 --max-depth 99
"""

import gc
import time
from dataclasses import dataclass

import numpy as np
import tyro

from benchmarks.common import Row, make_model, peak_mb, show, start
from dgl_treestack.data import formats
from dgl_treestack.data.vocabulary import Vocabulary
from dgl_treestack.expression.language import find
from dgl_treestack.model.dataset import Dataset
from dgl_treestack.model.model import Model
from dgl_treestack.resources import find_data
from dgl_treestack.runs.configuration import OptimizerConfig
from dgl_treestack.runs.evaluation import score
from dgl_treestack.training.optimizer import RowOptimizer


@dataclass
class Settings:
    """data: file of equations; `treestack generate paper` makes the default. most_nodes: omit larger equations; 0: none.

    equations: number to train on, in random order, repeated if there are fewer; 0: all once. language: of the file; the task
    is verification in `math`, else relation of pairs or classification of trees.
    """

    data: str = "data/paper/train.jsonl.gz"
    cell: str = "tree_smu"
    hidden: int = 50
    batch: int = 32
    max_depth: int = 7
    most_nodes: int = 0
    equations: int = 0
    language: str = "math"
    engines: tuple[str, ...] = ("levels", "levels/compiled")
    json: bool = False


def measure(settings: Settings, engine: str) -> Row:
    """Reading and preparing the file, then an epoch with one engine, after one untimed batch."""
    begin, language = time.process_time(), find(settings.language)
    examples = [e for e in formats.read(find_data(settings.data), language) if e.equation.depth <= settings.max_depth]
    if settings.most_nodes:
        examples = [e for e in examples if e.equation.size <= settings.most_nodes]
    if language.words:
        words = Vocabulary.of_words(text for example in examples for _, _, text in example.equation.leaves())
        task = "relation" if language.root else "classification"
        model = Model.build(settings.cell, settings.hidden, words, task, language, seed=0)
    else:
        model = make_model(settings.cell, settings.hidden)
    dataset = model.prepare(examples)
    loaded = time.process_time() - begin
    adam = RowOptimizer(model, OptimizerConfig())
    order = np.resize(np.random.default_rng(0).permutation(len(dataset)), settings.equations or len(dataset))
    _train(model, dataset, adam, order[: settings.batch], settings.batch, engine)
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    _train(model, dataset, adam, order, settings.batch, engine)
    trained = time.process_time()
    accuracy = score(model, dataset, engine).accuracy
    return {
        "cell": settings.cell,
        "engine": engine,
        "batch": settings.batch,
        "equations": len(order),
        "nodes": dataset.forest.sizes[order].mean(),
        "load_s": loaded,
        "train_s": trained - begin,
        "evaluate_s": time.process_time() - trained,
        "us_per_equation": 1e6 * (trained - begin) / len(order),
        "peak_mb": round(peak_mb()),
        "accuracy": accuracy,
    }


def _train(model: Model, dataset: Dataset, adam: RowOptimizer, order: np.ndarray, size: int, engine: str) -> None:
    model.train()
    for batch in dataset.in_order(order, size):
        loss = model.losses(model(batch, engine), batch).mean()
        adam.zero()
        loss.backward()
        adam.step()


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    start()
    show([measure(settings, engine) for engine in settings.engines], settings.json)


if __name__ == "__main__":
    main()
