"""Draws of the transductions, each solved from its input alone by another program than that which drew it."""

import re

import numpy as np
import pytest

from dgl_treestack.algorithmic.transductions import TRANSDUCTIONS

DRAWS = 3_000


def value(text):
    """The value of an expression modulo 5, as Python reads it. Digits have no leading zero, since they stand alone."""
    return eval(text) % 5


def manipulated(text):
    stack = []
    for symbol in text:
        if symbol == "p":
            del stack[-1:]
        else:
            stack.append({"a": "0", "b": "1"}.get(symbol, symbol))
    answer = "".join(reversed(stack)) + "."
    return answer + "0" * (len(text) + 1 - len(answer))


def solution(text):
    if "x" not in text:
        return "0"
    left, right = text.split("=")
    (x,) = [digit for digit in "01234" if value(left.replace("x", digit)) == int(right)]  # exactly one holds
    return x


SOLVERS = {
    "even_pairs": lambda text: str(len(re.findall("(?=01|10)", text)) % 2),
    "modular_arithmetic": lambda text: str(value(text)),
    "parity": lambda text: str(sum(map(int, text)) % 2),
    "stack_manipulation": manipulated,
    "reverse_string": lambda text: "".join(reversed(text)),
    "modular_arithmetic_brackets": lambda text: str(value(text)),
    "solve_equation": solution,
    "duplicate_string": lambda text: text + text,
}
FORMS = {
    "modular_arithmetic": r"[0-4]([+*-][0-4])*",
    "stack_manipulation": r"[01]+[pab]*",
    "modular_arithmetic_brackets": r"[-0-4+*()]+",
    "solve_equation": r"0{1,2}|[-0-4+()]*x[-0-4+()]*=[0-4]",
}


@pytest.mark.parametrize("name", TRANSDUCTIONS)
def test_a_program_solves_every_draw_from_its_input(name):
    task, generator, lengths, answers = TRANSDUCTIONS[name], np.random.default_rng(0), range(1, 61), set()
    for number in range(DRAWS):
        length = lengths[number % len(lengths)]
        text, answer = task.draw(length, generator)
        assert answer == SOLVERS[name](text), text
        assert re.fullmatch(FORMS.get(name, "[01]+"), text) and set(text) <= set(task.symbols), text
        assert len(text) == length - (name == "modular_arithmetic" and length % 2 == 0)
        answers |= set(answer)
    assert answers == set(task.answers), "every answer occurs"


def test_long_inputs_of_the_tests_are_drawn():
    for name, task in TRANSDUCTIONS.items():
        text, answer = task.draw(500, np.random.default_rng(1))
        assert len(text) in (499, 500) and answer == SOLVERS[name](text)


def test_a_batch_asks_for_every_output_and_counts_them_to_the_end():
    task = TRANSDUCTIONS["stack_manipulation"]
    inputs, outputs, counted = task.batch(50, 6, np.random.default_rng(3))
    generator = np.random.default_rng(3)
    for column in range(50):
        text, answer = task.draw(6, generator)
        assert "".join((task.symbols + "?")[token] for token in inputs[:, column]) == text + "?" * 7
        assert "".join(task.answers[token] for token in outputs[:, column]) == answer
        assert counted[:, column].tolist() == [True] * len(answer.partition(".")[0] + ".") + [False] * (6 - answer.index("."))
    assert TRANSDUCTIONS["duplicate_string"].batch(2, 5, generator)[2].all()
