"""Sequence cells as encoders: they read a side token by token, in prefix form with parentheses."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dgl_treestack import sequence
from dgl_treestack.cells import CellSpec
from dgl_treestack.sequence._tokens import Trees, prefix
from dgl_treestack.sequence.encoders import Encoder

WIDE, GROUPS = 100, 4  # on a CPU, an LSTM of this width or more reads groups of similar length: padding costs more


class SequenceEncoder(Encoder):
    """h after the last token (Arabshahi 2019, section 4.2; Mali 2021, table 2); x_t is the token's row of the table.

    For a cell whose h are sigmoids the vector is 2 h - 1, since products of positive numbers differ too little, and initial
    values are four times as large (Glorot & Bengio 2010), since otherwise only the last tokens have an effect. Without both a
    Stack RNN stays at chance.

    cell: its name in `sequence.CELLS`. Dropout acts on x_t.
    Deviations from the authors' code: every token has its own row, while theirs, by mistake, gives named constants the rows of
    operators; theirs has another sigmoid layer after the RNN's last token, and dropout on the LSTM's candidate in place of x_t.
    """

    def __init__(self, leaves: int, operators: int, hidden: int, *, cell: str, dropout: float = 0.0, **settings: Any):
        super().__init__(leaves, operators, hidden, dropout=dropout)
        self.cell = sequence.build(cell, hidden, {"hidden": hidden, **settings})

    def written(self, trees: Trees) -> tuple[np.ndarray, ...]:
        return prefix(trees, self.signs)

    def read(self, tokens: Tensor, lengths: Tensor, *paths: Tensor, fixed: bool = False) -> Tensor:
        device = self.table.device
        wide = not fixed and isinstance(self.cell, sequence.LSTM) and self.hidden >= WIDE and device.type == "cpu"
        # 37 ms a batch in place of 72. Rejected: packed sequences, 77 ms.
        order = lengths.argsort() if wide else torch.arange(len(lengths), device=lengths.device)
        last_h = []
        for rows in order.chunk(GROUPS if wide else 1):
            length = lengths[rows]
            symbols = tokens[rows, : int(length.max()) if wide else None].T.to(device, non_blocking=True)
            x = functional.embedding(symbols, self.table)
            h, _ = self.cell.unroll(functional.dropout(x, self.dropout, self.training))
            last_h.append(h[(length - 1).to(device, non_blocking=True), torch.arange(len(rows), device=device)])
        vectors = torch.cat(last_h)
        if wide:
            vectors = vectors[order.argsort()]
        return 2 * vectors - 1 if self.cell.positive else vectors

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table from N(0, 1) and the cell's parameters as the cell does, times 4 if its h are sigmoids."""
        super().reset_parameters(generator)
        sequence.draw_as_layer(self.cell, generator)


_STACKS = {"cell": "stack_rnn", "stacks": 10, "noop": True, "recurrence": "full", "capacity": 64}
MODELS = {
    "rnn": CellSpec(SequenceEncoder, "Arabshahi 2019", "-", "a recurrent net over prefix tokens", {"cell": "rnn"}),
    "lstm": CellSpec(SequenceEncoder, "Arabshahi 2019", "-", "an LSTM over prefix tokens", {"cell": "lstm"}),
    "stack_rnn": CellSpec(SequenceEncoder, "Joulin & Mikolov 2015", "3-7", "a Stack RNN over prefix tokens", _STACKS),
}
