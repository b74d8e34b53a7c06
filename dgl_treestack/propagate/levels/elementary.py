"""exp, sigmoid and tanh in kernels: inline, where Inductor has calls of a library.

At a call everything that a loop holds in registers goes to memory and back, and the library's tanh takes ten times as long as a
sigmoid: Tree-SMU's kernels took twice as long with them. ATen's vectors have an inline exp of their own, `exp_u20`. Relative
errors in float32 are below 3e-6 (`tests/propagate/test_compiled.py`); float64 is left as it is.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import Chebyshev
from torch._inductor.codegen.cpp import CppVecOverrides

SMALL = 0.4  # below, tanh is a polynomial: the difference of two numbers near one would lose its digits


def _coefficients() -> list[float]:
    """Of tanh(x) / x in x^2 on (0, SMALL), highest power first; off by 2e-9 at most."""
    fitted = Chebyshev.interpolate(lambda square: np.tanh(np.sqrt(square)) / np.sqrt(square), 4, domain=[1e-12, SMALL**2])
    return [float(one) for one in fitted.convert(kind=Polynomial).coef[::-1]]


def _sigmoid(x: object) -> str:
    return f"decltype({x})(1) / (decltype({x})(1) + {x}.neg().exp_u20())"


def _tanh(x: object) -> str:
    def number(value: float) -> str:
        return f"decltype({x})({value!r}f)"

    first, *others = _coefficients()
    small = number(first)
    for one in others:
        small = f"at::vec::fmadd({small}, {x} * {x}, {number(one)})"
    large = f"{number(1.0)} - {number(2.0)} / ({number(1.0)} + ({number(2.0)} * {x}).exp_u20())"
    return f"decltype({x})::blendv({large}, {x} * {small}, {x}.abs() < {number(SMALL)})"


def _exp(x: object) -> str:
    return f"{x}.exp_u20()"


INLINE = {"exp": _exp, "sigmoid": _sigmoid, "tanh": _tanh}


def written() -> list[str]:
    """The code of all of them, by which kernels made with other code are told apart."""
    return [write("x") for write in INLINE.values()]


@contextmanager
def inline() -> Iterator[None]:
    """Code that Inductor writes within has these functions inline."""
    with ExitStack() as patches:
        for name, write in INLINE.items():
            patches.enter_context(mock.patch.object(CppVecOverrides, name, _for_float32(write, getattr(CppVecOverrides, name))))
        yield


def _for_float32(write: Any, otherwise: Any) -> staticmethod:
    def code(x: Any) -> str:  # what is not a number stays so, which exp_u20 does not see to
        return f"decltype({x})::blendv({write(x)}, {x}, {x} != {x})" if x.dtype == torch.float32 else otherwise(x)

    return staticmethod(code)
