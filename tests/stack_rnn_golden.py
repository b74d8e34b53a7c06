"""Golden numbers of the authors' Stack RNN program, and its nets as cells."""

import json
from pathlib import Path

import torch

from dgl_treestack.sequence import StackRNN

GOLDEN = json.loads((Path(__file__).parent / "goldens" / "stack_rnn.json").read_text())


def of_the_program(case):
    """A Stack RNN with the weights of a case, in double precision."""
    weights = {name: torch.tensor(value, dtype=torch.float64) for name, value in case["weights"].items()}
    stacks, actions, hidden = weights["A"].shape
    recurrence = "full" if case["use_R"] else "stacks"
    cell = StackRNN(len(weights["U"]), hidden, stacks=stacks, depth=case["k"], noop=case["noop"], recurrence=recurrence,
                    capacity=case["stack_size"]).double()  # fmt: skip
    cell.hard = case["hard"]
    tensors = {"U": weights["U"].T, "A": weights["A"].reshape(stacks * actions, hidden), "D": weights["D"]}
    tensors["P"] = weights["P"].movedim(0, 1).reshape(hidden, -1)
    cell.load_state_dict(tensors | ({"R": weights["R"]} if case["use_R"] else {}))
    return cell, weights["V"]
