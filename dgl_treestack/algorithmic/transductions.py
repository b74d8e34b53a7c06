"""The transductions of Delétang et al. 2023, 'Neural Networks and the Chomsky Hierarchy': a text goes in, a text comes out.

A task is a function of a length and a random stream that draws an input and its output. The definitions are those of the
authors' program (google-deepmind/neural_networks_chomsky_hierarchy), numbers modulo 5. A new task is such a function and an
entry of `TRANSDUCTIONS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MODULUS = 5
_DIGITS, _END = "01234", "."
_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda left, right: (left + right) % MODULUS,
    "-": lambda left, right: (left - right) % MODULUS,
    "*": lambda left, right: (left * right) % MODULUS,
}


def even_pairs(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return bits, and whether the number of pairs 01 and 10 is even (0) or odd (1): it is even if first and last are equal."""
    bits = _word("01", length, generator)
    return bits, str(int(bits[0] != bits[-1]))


def modular_arithmetic(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return digits with +, - and * between them, and the value. Products come first. An even length is shortened by one."""
    digits = _word(_DIGITS, (length + 1) // 2, generator)
    operators = _word("+-*", len(digits) - 1, generator)
    total, term = 0, int(digits[0])
    for operator, digit in zip(operators, digits[1:], strict=True):
        if operator == "*":
            term *= int(digit)
        else:
            total, term = total + term, int(f"{operator}{digit}")
        term %= MODULUS
    text = "".join(f"{operator}{digit}" for operator, digit in zip(f" {operators}", digits, strict=True)).strip()
    return text, str((total + term) % MODULUS)


def parity(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return bits, and whether the number of ones is even (0) or odd (1)."""
    bits = _word("01", length, generator)
    return bits, str(bits.count("1") % 2)


def stack_manipulation(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return a stack from the bottom up, of at least one bit, with actions behind it; and the stack after them, top first.

    Actions: `p` pops, unless the stack is empty, `a` pushes 0, `b` pushes 1. The output ends with `.`, and zeros fill it up to
    one more than the length.
    """
    stack = _word("01", int(generator.integers(1, length)) if length > 1 else 1, generator)
    actions = _word("pab", length - len(stack), generator)
    after = stack
    for action in actions:
        after = after[:-1] if action == "p" else after + {"a": "0", "b": "1"}[action]
    return stack + actions, (after[::-1] + _END).ljust(length + 1, "0")


def reverse_string(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return bits, and the bits from the last to the first."""
    bits = _word("01", length, generator)
    return bits, bits[::-1]


def modular_arithmetic_brackets(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return an expression with a bracket around every operation, +, - or *, and its value."""
    text, value = _expression(length, "+-*", generator)
    return text, str(value)


def solve_equation(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return an equation of one unknown x, with brackets, + and -, and the value of x. Below length 3 there is no equation: the
    input is zeros and the output 0."""
    if length < 3:
        return "0" * length, "0"
    text, value = _expression(length - 2, "+-", generator)
    start = int(generator.integers(len(text)))
    places = [place for place, symbol in enumerate(text) if symbol in _DIGITS]
    place = min(places, key=lambda place: (place - start) % len(text))  # the first digit from there on
    return f"{text[:place]}x{text[place + 1 :]}={value}", text[place]


def duplicate_string(length: int, generator: np.random.Generator) -> tuple[str, str]:
    """Return bits, and the bits twice."""
    bits = _word("01", length, generator)
    return bits, bits * 2


def _word(symbols: str, length: int, generator: np.random.Generator) -> str:
    """Draw a text of symbols."""
    return "".join(symbols[number] for number in generator.integers(len(symbols), size=length))


def _expression(length: int, operators: str, generator: np.random.Generator) -> tuple[str, int]:
    """Draw an expression of a length, and return it with its value: d, -d, (d) or (-d) below length 5, else two expressions
    with an operator between them, in brackets. The length of the first is drawn uniformly."""
    if length < 5:
        digit = _word(_DIGITS, 1, generator)
        sign = "" if length % 2 else "-"
        return (f"{sign}{digit}" if length < 3 else f"({sign}{digit})"), int(sign + digit) % MODULUS
    left_length = int(generator.integers(1, length - 3))
    left, left_value = _expression(left_length, operators, generator)
    right, right_value = _expression(length - left_length - 3, operators, generator)
    operator = _word(operators, 1, generator)
    return f"({left}{operator}{right})", _OPERATIONS[operator](left_value, right_value)


@dataclass(frozen=True)
class Transduction:
    """A task. level: the class of languages in Chomsky's hierarchy. symbols: of inputs. answers: the symbols of outputs."""

    title: str
    level: str
    draw: Callable[[int, np.random.Generator], tuple[str, str]]
    symbols: str
    answers: str

    def batch(self, count: int, length: int, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw `count` sequences of a length, which are in the columns of tensors.

        Returns inputs (T, B), the symbols and then as many queries, whose number is that of the symbols, as there are outputs;
        the outputs (O, B); and whether they count (O, B): what follows the end of an output does not.
        """
        inputs, outputs, counted = [], [], []
        for text, answer in (self.draw(length, generator) for _ in range(count)):
            inputs.append([self.symbols.index(symbol) for symbol in text] + [len(self.symbols)] * len(answer))
            outputs.append([self.answers.index(symbol) for symbol in answer])
            counts = answer.find(_END) + 1 or len(answer)
            counted.append([position < counts for position in range(len(answer))])
        return torch.tensor(inputs).T, torch.tensor(outputs).T, torch.tensor(counted).T


REGULAR, CONTEXT_FREE, CONTEXT_SENSITIVE = "regular", "deterministic context-free", "context-sensitive"
TRANSDUCTIONS = {
    "even_pairs": Transduction("even pairs", REGULAR, even_pairs, "01", "01"),
    "modular_arithmetic": Transduction("modular arithmetic", REGULAR, modular_arithmetic, _DIGITS + "+-*", _DIGITS),
    "parity": Transduction("parity", REGULAR, parity, "01", "01"),
    "stack_manipulation": Transduction("stack manipulation", CONTEXT_FREE, stack_manipulation, "01pab", "01" + _END),
    "reverse_string": Transduction("reverse string", CONTEXT_FREE, reverse_string, "01", "01"),
    "modular_arithmetic_brackets": Transduction(
        "modular arithmetic, brackets", CONTEXT_FREE, modular_arithmetic_brackets, _DIGITS + "+-*()", _DIGITS
    ),
    "solve_equation": Transduction("solve equation", CONTEXT_FREE, solve_equation, _DIGITS + "+-()x=", _DIGITS),
    "duplicate_string": Transduction("duplicate string", CONTEXT_SENSITIVE, duplicate_string, "01", "01"),
}
