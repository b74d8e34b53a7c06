"""Sequence cells, one file each: a cell is a step from one token to the next, and `unroll` runs it over a sequence."""

from dgl_treestack.sequence._contract import LARGEST as LARGEST
from dgl_treestack.sequence._contract import SEQUENCE as SEQUENCE
from dgl_treestack.sequence._contract import ActingCell as ActingCell
from dgl_treestack.sequence._contract import Chain as Chain
from dgl_treestack.sequence._contract import SequenceCell as SequenceCell
from dgl_treestack.sequence._contract import State as State
from dgl_treestack.sequence._contract import draw_summed as draw_summed
from dgl_treestack.sequence.list_rnn import ListRNN as ListRNN
from dgl_treestack.sequence.lstm import LSTM as LSTM
from dgl_treestack.sequence.rnn import RNN as RNN
from dgl_treestack.sequence.scrn import SCRN as SCRN
from dgl_treestack.sequence.stack_rnn import StackRNN as StackRNN
