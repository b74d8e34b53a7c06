"""Sequence cells, one file each: a cell is a step from one token to the next, and `unroll` runs it over a sequence.

`encoders` has the models that read a whole tree as a sequence, found as the files `NAME_encoder.py` of this folder.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.sequence._contract import LARGEST as LARGEST
from dgl_treestack.sequence._contract import ActingCell as ActingCell
from dgl_treestack.sequence._contract import SequenceCell as SequenceCell
from dgl_treestack.sequence._contract import draw_as_layer as draw_as_layer
from dgl_treestack.sequence._contract import draw_summed as draw_summed
from dgl_treestack.sequence.list_rnn import ListRNN as ListRNN
from dgl_treestack.sequence.lstm import LSTM as LSTM
from dgl_treestack.sequence.rnn import RNN as RNN
from dgl_treestack.sequence.rotary_transformer import RotaryTransformer as RotaryTransformer
from dgl_treestack.sequence.scrn import SCRN as SCRN
from dgl_treestack.sequence.stack_rnn import StackRNN as StackRNN
from dgl_treestack.sequence.vector_stack_rnn import VectorStackRNN as VectorStackRNN

CELLS: dict[str, type[SequenceCell]] = {
    "rnn": RNN,
    "lstm": LSTM,
    "scrn": SCRN,
    "list_rnn": ListRNN,
    "stack_rnn": StackRNN,
    "vector_stack_rnn": VectorStackRNN,
}


def build(name: str, inputs: int, settings: Mapping[str, Any], restarts: int | None = None) -> SequenceCell:
    """Return a cell by its name in `CELLS`, uninitialised. settings: arguments of its class.

    Raises ConfigurationError for an unknown setting.
    """
    if "restarts" in settings:
        raise ConfigurationError("'restarts' is no setting of a cell; only a run on an algorithmic task has several nets.")
    return cast(SequenceCell, _made(CELLS[name], name, inputs, {**settings, "restarts": restarts}))


def build_reader(name: str, inputs: int, settings: Mapping[str, Any]) -> SequenceCell | RotaryTransformer:
    """Return what reads whole sequences, uninitialised: a cell by its name in `CELLS`, or `rotary_transformer`."""
    if name == "rotary_transformer":
        return cast(RotaryTransformer, _made(RotaryTransformer, name, inputs, settings))
    return build(name, inputs, settings)


def _made(reader: Callable[..., Any], name: str, inputs: int, settings: Mapping[str, Any]) -> Any:
    """Call a class. Raises ConfigurationError for an unknown setting."""
    try:
        return reader(inputs, **settings)
    except TypeError as error:
        raise ConfigurationError(f"Model {name!r}: {str(error).split('() ')[-1]}.") from None
