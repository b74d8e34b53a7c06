"""The nets of Joulin & Mikolov's tables, with the recipes by which their restarts are trained here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dgl_treestack.algorithmic._task import Task
from dgl_treestack.algorithmic.training import ROUNDING, Recipe
from dgl_treestack.sequence import LSTM, RNN, ListRNN, SequenceCell, StackRNN

CAPACITY = 80  # rows in training: sequences of size 19 push at most 76 symbols


@dataclass(frozen=True)
class NetModel:
    """A model of the tables and how its restarts are trained.

    sizes: settings to try; those whose best restart has the lowest entropy are used. build: (symbols, restarts=, **size) ->
    cell. rounding: a second training towards hard actions, for models with actions.
    """

    label: str
    sizes: tuple[Mapping[str, int], ...]
    build: Callable[..., SequenceCell]
    recipe: Recipe
    rounding: Recipe | None = None


_LONGER = Recipe(updates=2400, tokens=25)
COUNTING: Mapping[str, Recipe] = {
    "RNN": _LONGER,
    "LSTM": replace(_LONGER, optimizer="adam", rate=1e-2),  # with plain gradient descent the gates learn nothing here
    "List RNN": replace(_LONGER, optimizer="adam", rate=1e-2),
    "Stack RNN": Recipe(),
}
# Storing arbitrary words takes longer than counting, and needs small steps and a slow curriculum (docs/log).
_SLOW = Recipe(updates=9000, tokens=25, optimizer="adam", rate=3e-3, curriculum=0.8, steady=0.65)
REMEMBERING: Mapping[str, Recipe] = {
    "RNN": replace(_SLOW, updates=4000, optimizer="sgd", rate=0.1),
    "LSTM": replace(_SLOW, updates=4000),
    "List RNN": _SLOW,
    "Stack RNN": _SLOW,
}
# Carrying is learned at small sizes first; a net that meets larger sizes before that never learns it.
_PATIENT = replace(_SLOW, updates=30_000, goal=0.06, steady=0.8)
_GENTLE = replace(ROUNDING, tokens=25, optimizer="adam", rate=3e-4, beta=40.0)
_RNN = tuple({"hidden": hidden} for hidden in (40, 100, 500))
_LSTM = tuple({"hidden": hidden, "layers": layers} for layers in (1, 2) for hidden in (50, 100, 200))


def models(task: Task) -> list[NetModel]:
    """Return the models of a task in the sizes of the paper, in the order of its Table 2."""
    recipes, rounding = (REMEMBERING, _GENTLE) if task.remembers else (COUNTING, ROUNDING)
    hidden, lists = (100, 10) if task.remembers else (40, 5)
    list_rnn = partial(ListRNN, lists=lists, noop=task.noop, capacity=2 * CAPACITY)
    stack_rnn = partial(StackRNN, stacks=10, noop=task.noop, capacity=CAPACITY)
    size = ({"hidden": hidden},)
    stack_recipe = _PATIENT if task.patient else recipes["Stack RNN"]
    return [
        NetModel("RNN", _RNN, partial(RNN, activation="sigmoid"), recipes["RNN"]),
        NetModel("LSTM", _LSTM, LSTM, recipes["LSTM"]),
        NetModel(f"List RNN {hidden}+{lists}", size, list_rnn, recipes["List RNN"], rounding),
        NetModel(f"Stack RNN {hidden}+10", size, stack_rnn, stack_recipe, rounding),
    ]
