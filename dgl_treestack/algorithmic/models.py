"""The nets of Joulin & Mikolov's tables, with the recipes by which their restarts are trained here."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.training import ROUNDING, Recipe
from dgl_treestack.sequence import LSTM, RNN, ListRNN, SequenceCell, StackRNN

CAPACITY = 80  # rows in training: sequences of size 19 push at most 76 symbols


@dataclass(frozen=True)
class NetModel:
    """sizes: of the hidden layer, tried one after another; the one whose best restart has the least entropy is taken.
    build: (symbols, hidden, restarts) -> cell. rounding: what follows training, if the model takes actions. most: restarts at
    most, fewer for nets whose restarts do not differ much and are slow."""

    label: str
    sizes: tuple[int, ...]
    build: Callable[[int, int, int], SequenceCell]
    recipe: Recipe
    rounding: Recipe | None = None
    most: int = 1_000


COUNTING = Recipe()
# Words of any kind take longer than counting, need small steps, and a slow curriculum (LOG.md).
REMEMBERING = Recipe(updates=9000, tokens=25, optimizer="adam", rate=3e-3, curriculum=0.8, steady=0.65)
_GENTLE = replace(ROUNDING, tokens=25, optimizer="adam", rate=3e-4, beta=40.0)


def models(task: Task) -> list[NetModel]:
    """The models of a task, in the order of the paper's Table 2."""
    counting = task.name not in ("memorization", "addition")
    recipe, rounding = (COUNTING, ROUNDING) if counting else (REMEMBERING, _GENTLE)
    gradual = replace(recipe, optimizer="adam", rate=3e-3)  # gates and sigmoids learn nothing here by plain descent
    hidden, lists = (40, 5) if counting else (100, 10)
    noop = task.name == "addition"
    return [
        NetModel("RNN", (40, 100), lambda d, h, r: RNN(d, h, activation="sigmoid", restarts=r), gradual, most=8),
        NetModel("LSTM", (50, 100), lambda d, h, r: LSTM(d, h, restarts=r), gradual, most=8),
        NetModel(
            f"List RNN {hidden}+{lists}",
            (hidden,),
            lambda d, h, r: ListRNN(d, h, lists=lists, noop=noop, capacity=2 * CAPACITY, restarts=r),
            gradual,
            rounding,
        ),
        NetModel(
            f"Stack RNN {hidden}+10",
            (hidden,),
            lambda d, h, r: StackRNN(d, h, stacks=10, noop=noop, capacity=CAPACITY, restarts=r),
            recipe,
            rounding,
        ),
    ]
