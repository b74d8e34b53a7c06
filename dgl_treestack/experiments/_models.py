"""The models of the papers' tables and the configurations that train them."""

from collections.abc import Mapping

from dgl_treestack.experiments._protocol import Paper, Row

SEQUENCE_MODELS = {
    "RNN": "rnn",
    "LSTM": "lstm",
    "Stack-RNN": "stack_rnn",
    "Transformer": "transformer",
    "Tree Transformer": "tree_transformer",
}
TREE_MODELS = {
    "Tree-RNN": "tree_rnn_tanh",
    "Tree-RNN, two layers": "tree_rnn_two_layers-tanh",  # that of 2020
    "Tree-RNN+stack": "tree_rnn_stack-tanh",
    "Tree-RNN+stack+no-op": "tree_rnn_stack_noop-tanh",
    "Tree-LSTM": "tree_lstm",
    "Tree-LSTM+stack": "tree_lstm_stack",
    "Tree-LSTM+stack+normalize": "tree_lstm_stack_normalise",
    "Tree-LSTM+stack+normalize+no-op": "tree_lstm_stack_normalise_noop",
    "Tree-SMU": "tree_smu",
    "Tree-SMU - no-op": "tree_smu_pushpop",
    "2nd order Tree-RNN": "tree_rnn_second_order-searched",
    "MI-Tree-LSTM": "mi_tree_lstm-searched",
    "MTree-LSTM": "mtree_lstm-searched",
    "MI-Tree-LSTM+stack": "mi_tree_lstm_stack-searched",
    "M-Tree-LSTM+stack": "mtree_lstm_stack-searched",
}
ALL_MODELS = {**SEQUENCE_MODELS, **TREE_MODELS}
FIRST_ORDER = {  # Mali's cells without the second-order terms
    "MTree-LSTM, first order": "mtree_lstm_first_order-searched",
    "MI-Tree-LSTM, first order": "mi_tree_lstm_first_order-searched",
    "MI-Tree-LSTM+stack, first order": "mi_tree_lstm_stack_first_order-searched",
    "M-Tree-LSTM+stack, first order": "mtree_lstm_stack_first_order-searched",
}

_TANH = "tanh; the paper of 2019 says 'such as Sigmoid', with which it does not learn here"
_ATTENTION = (
    "hidden 128, where the paper searched 50 to 120, and no dropout unless the row says so, where it searched 0 to 0.25; two "
    "layers, four heads and a feed-forward net of 256 units, none of which it gives; normalization comes first in a layer; the "
    "output is the mean over "
)
_SEARCHED_SIZES = "the papers give the searched hidden sizes, 50 to 120 (2020) and 8 to 100 (Mali), not the chosen ones"
_RATE = (
    "learning rate: that of Mali 2021 starts at 0.1 and is halved; with 0.1 all along, five epochs, one seed, it does not "
    "learn here, and `own_settings` has the halved rate"
)
_PRODUCTS = "; products of maps where eq. 3 prints a sum, with a tanh"
_GENERAL = "; gates have the general form of multiplicative integration (Wu et al. 2016), the printed one fades with depth"
_ROWS = "; five rows of stack with a no-op: the paper gives no number, its eq. 18 has a no-op, its eq. 16 and 19 have none"
# What differs from the papers in a row, by configuration, besides what is the same for all models at scale `day`.
DIFFERS = {
    "transformer": _ATTENTION
    + "tokens in prefix form, whose positions (sines) reach farther in deeper equations than in training",
    "tree_transformer": _ATTENTION + "nodes, with the positions of Shiv & Quirk 2019, made of the last 32 steps to a node",
    "lstm": _SEARCHED_SIZES,
    "rnn": _SEARCHED_SIZES,
    "stack_rnn": _SEARCHED_SIZES
    + "; ten stacks of width 1, of 64 rows, of which two are read, with push, pop and no-op, and a full recurrence (Mali gives "
    "none of these); Adam without clipping and one start, where Joulin & Mikolov 2015 have SGD with clipping and restarts",
    **{name: _TANH for name in TREE_MODELS.values() if name.startswith("tree_rnn") and "tanh" in name},
    **{name: _RATE for name in (*TREE_MODELS.values(), *FIRST_ORDER.values()) if name.endswith("-searched")},
    "mi_tree_lstm-searched": _RATE + _GENERAL,
    "mtree_lstm-searched": _RATE + _PRODUCTS,
    "mi_tree_lstm_stack-searched": _RATE + _GENERAL + _ROWS,
    "mtree_lstm_stack-searched": _RATE + _PRODUCTS + _ROWS,
    "mi_tree_lstm_stack_first_order-searched": _RATE + _ROWS,
    "mtree_lstm_stack_first_order-searched": _RATE + _ROWS,
    "tree_rnn_second_order-searched": f"{_RATE}; initial values times 0.1",
}

SAME = "Tree-SMU is Tree-LSTM+stack+normalize+no-op with two rows of stack in place of five"
MAIN = ("Tree-RNN, two layers", "Tree-LSTM", "Tree-SMU", "MI-Tree-LSTM+stack", "M-Tree-LSTM+stack")  # drawn in figures
PAIRS = (  # what productivity and systematicity ask: is the first more accurate?
    ("Tree-SMU", "Tree-LSTM"),
    ("Tree-SMU", "LSTM"),
    ("Tree-SMU", "Transformer"),
    ("Tree-SMU", "Tree Transformer"),
    ("Tree-LSTM", "Tree-RNN, two layers"),
    ("Tree-LSTM", "LSTM"),
    ("Tree-SMU", "Tree-SMU - no-op"),
    ("Tree-LSTM+stack+normalize+no-op", "Tree-SMU"),
    ("MTree-LSTM", "Tree-LSTM"),
    ("M-Tree-LSTM+stack", "MTree-LSTM"),
    ("M-Tree-LSTM+stack", "Tree-LSTM"),
    ("MI-Tree-LSTM+stack", "Tree-SMU"),
)


SLOW = ("tree_rnn_second_order-searched", "stack_rnn", "transformer", "tree_transformer")  # two to five times as slow as others
SEEDS = dict.fromkeys(SLOW, 3)  # number of seeds, by configuration


def model_rows(models: Mapping[str, str], paper: Mapping[str, Mapping[str, Paper]]) -> tuple[Row, ...]:
    """Return a row per model.

    models: configurations by label. paper: the paper's numbers, by label and column; all of its labels are in `models`.
    """
    assert paper.keys() <= models.keys()
    return tuple(Row(label, config, paper.get(label, {}), seeds=SEEDS.get(config)) for label, config in models.items())
