"""All uses of private and experimental interfaces of torch, and what happens without each.

fused Adam kernel        the same update in separate operations, slower
lists of tensors         a loop over the tensors, slower
C++ compiler finder      no native code: `missing()` says why, training uses the eager steps
tracer, fake tensors     likewise
Inductor's packager      likewise
Inductor's headers       precompiled ones are in the shared temporary folder, where others could put their own
Inductor's C++ code      kernels call library functions for exp, sigmoid and tanh, slower
C++ package loader       (in csrc/sweep.cpp) the native library does not compile; the error names the engine to use

At the end: generators of random numbers, where every draw is a function of a seed, its purpose and its position in a run, so
that random streams have no state that a checkpoint would have to hold; how the processor takes subnormal numbers; and
gradients that have no gradient.
"""

import logging
import math
import os
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import Chebyshev
from torch import Tensor

Gradients = tuple[Tensor | None, ...]
logger = logging.getLogger(__name__)

SMALL = 0.4  # below, tanh is a polynomial: 1 - 2 / (1 + exp(2 x)) would lose digits


@cache
def _warn_without(interface: str) -> None:
    """Log once that this torch lacks an interface."""
    logger.warning("torch %s has no %s; the package does without it, slower.", torch.__version__, interface)


def fused_adam(
    parameters: list[Tensor],
    gradients: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    steps: list[Tensor],
    **settings: Any,
) -> None:
    """One update of Adam in place, of the steps too. settings: lr, beta1, beta2, weight_decay, eps."""
    foreach_("add_", steps, torch.ones_like(steps[0]), alpha=1.0)  # without alpha it takes four times as long
    # Called directly: of 1.24 ms of `torch.optim.Adam`, its kernel took 0.65.
    if hasattr(torch, "_fused_adam_"):
        torch._fused_adam_(parameters, gradients, first, second, [], steps, **settings, amsgrad=False, maximize=False)
        return
    _warn_without("_fused_adam_")
    for parameter, gradient, mean, square, step in zip(parameters, gradients, first, second, steps, strict=True):
        gradient = gradient.add(parameter, alpha=settings["weight_decay"])
        mean.lerp_(gradient, 1 - settings["beta1"])
        square.mul_(settings["beta2"]).addcmul_(gradient, gradient, value=1 - settings["beta2"])
        count = float(step)  # 1 - beta2 ** step would lose digits in float32
        scale = math.sqrt(1 - settings["beta2"] ** count)
        denominator = (square.sqrt() / scale).add_(settings["eps"])
        parameter.sub_(mean / denominator * (settings["lr"] / (1 - settings["beta1"] ** count)))


def foreach_(operation: str, tensors: Sequence[Tensor], *arguments: Any, **settings: Any) -> None:
    """Call an operation such as `mul_` of every tensor. An argument is one for all tensors, or a list with one for each."""
    if hasattr(torch, f"_foreach_{operation}"):
        getattr(torch, f"_foreach_{operation}")(tensors, *arguments, **settings)
        return
    _warn_without(f"_foreach_{operation}")
    for i, tensor in enumerate(tensors):
        of_tensor = (argument[i] if isinstance(argument, list) else argument for argument in arguments)
        getattr(tensor, operation)(*of_tensor, **settings)


@cache
def missing() -> str:
    """Why native code is not available with this torch; empty if it is."""
    try:
        from torch._inductor import aoti_compile_and_package, cpp_builder, exc  # noqa: F401  # this import takes a second
        from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: F401
        from torch.fx.experimental.proxy_tensor import make_fx  # noqa: F401
    except (ImportError, AttributeError) as error:
        return f"torch {torch.__version__} has other private interfaces: {error}"
    compiler = cpp_compiler()
    if not compiler:
        return "there is no C++ compiler"
    # without a shared C++ library g++ puts a copy of it into native code, and two copies in one process crash it
    command = [compiler, "-print-file-name=libstdc++.so"]
    shared_library = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return "" if os.path.isabs(shared_library) else f"{compiler} finds no libstdc++.so"


@cache
def cpp_compiler() -> str | None:
    """The C++ compiler that Inductor uses, None if there is none."""
    from torch._inductor import cpp_builder, exc

    try:
        return str(cpp_builder.get_cpp_compiler())
    except exc.InvalidCxxCompiler:
        return None


def fake_tensors() -> Any:
    """A context in which tensors have shapes and no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def trace(function: Callable[..., Any], examples: list[Tensor], *, symbolic: bool = True) -> torch.fx.GraphModule:
    """The graph of a function of a list of tensors, including its gradients. symbolic: whether sizes are symbols."""
    from torch.fx.experimental.proxy_tensor import make_fx

    log = logging.getLogger("torch.__trace")  # torch would log a stack trace for every symbol, which takes time
    handlers, log.handlers = log.handlers, []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_fx(lambda tensors: function(tensors), tracing_mode="symbolic" if symbolic else "fake")(examples)
    finally:
        log.handlers = handlers


def example_size(size: Any) -> int:
    """Return the value of a symbolic size in the examples with which a graph was traced."""
    return int(size.node.hint)


def package(program: torch.export.ExportedProgram, file: Path, options: Mapping[str, Any]) -> Path:
    """Compile an exported program to native code in a file. Intermediate files stay in its folder.

    Inductor's own folder serves all processes of a user, and it reads what it wrote there after it has released its lock: two
    processes that build the same kernel would meet half-written files. The checks of the processor's vector instructions and
    the precompiled headers take seconds and are locked; they stay in Inductor's folder, TORCHINDUCTOR_CACHE_DIR.
    """
    with suppress(ImportError, AttributeError):
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        pick_vec_isa()
    with ExitStack() as patches, warnings.catch_warnings():
        if inductor := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
            # the default is in the temporary folder, under a name that others can guess
            headers = os.path.join(inductor, "precompiled_headers")
            for name, path in (("_HEADER_DIR", headers), ("_HEADER_LOCK_DIR", os.path.join(headers, "locks"))):
                if hasattr(torch._inductor.codecache, name):
                    patches.enter_context(mock.patch.object(torch._inductor.codecache, name, path))
        warnings.simplefilter("ignore")
        patches.enter_context(mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(file.parent)))
        for patch in _inline_functions():
            patches.enter_context(patch)
        return Path(torch._inductor.aoti_compile_and_package(program, package_path=str(file), inductor_configs=dict(options)))


def compile_here(program: torch.export.ExportedProgram, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile an exported program for this process, for any size of its dynamic dimensions."""
    module = program.module(check_guards=False)
    examples = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]  # with their symbolic sizes
    module.graph.set_codegen(torch.fx.graph.CodeGen())  # inputs one by one
    graph = torch.fx.GraphModule(module, module.graph)  # without what Inductor's cache cannot store
    options_of_this_torch = {name: value for name, value in options.items() if _has_option(name)}
    return torch._inductor.compile(graph, examples, options=options_of_this_torch)


def _has_option(name: str) -> bool:
    from torch._inductor import config

    try:
        config.__getattr__(name)
    except AttributeError:
        return False
    return True


def _tanh() -> str:
    """1 - 2 / (1 + exp(2 x)); near zero, where that loses digits, x times a polynomial in x^2 with an error of at most 2e-9."""

    def number(value: float) -> str:
        return f"decltype({{x}})({value!r}f)"

    # tanh(x) / x on (0, SMALL), highest power first
    fit = Chebyshev.interpolate(lambda square: np.tanh(np.sqrt(square)) / np.sqrt(square), 4, domain=[1e-12, SMALL**2])
    first, *rest = [float(coefficient) for coefficient in fit.convert(kind=Polynomial).coef[::-1]]
    small = number(first)
    for coefficient in rest:
        small = f"at::vec::fmadd({small}, {{x}} * {{x}}, {number(coefficient)})"
    large = f"{number(1.0)} - {number(2.0)} / ({number(1.0)} + ({number(2.0)} * {{x}}).exp_u20())"
    return f"decltype({{x}})::blendv({large}, {{x}} * {small}, {{x}}.abs() < {number(SMALL)})"


# exp, sigmoid and tanh inline, where Inductor calls a vector library: a call spills all registers of the loop, and its tanh
# takes ten times as long as a sigmoid. ATen's vectors have an inline exp, `exp_u20`. Relative errors in float32 are below 3e-6
# (tests/propagate/test_compiled.py); float64 calls the library.
# Two kernels of 1,024 rows take 352 and 397 us with library calls, 198 and 269 inline, 253 and 384 with formulas written out
# in the graph, 276 and 300 with Inductor's own decomposition of tanh, which loses digits near zero.
INLINE = {
    "exp": "{x}.exp_u20()",
    "sigmoid": "decltype({x})(1) / (decltype({x})(1) + {x}.neg().exp_u20())",
    "tanh": _tanh(),
}


def _inline_functions() -> Iterator[Any]:
    """Patches that make Inductor write these functions inline; none if its code writer has changed."""
    try:
        from torch._inductor.codegen.cpp import CppVecOverrides

        originals = {name: getattr(CppVecOverrides, name) for name in INLINE}
    except (ImportError, AttributeError):
        _warn_without("CppVecOverrides")
        return

    def code(name: str, x: Any) -> str:
        if x.dtype != torch.float32:
            return str(originals[name](x))
        value = INLINE[name].format(x=x)
        return f"decltype({x})::blendv({value}, {x}, {x} != {x})"  # NaN stays NaN, which exp_u20 does not ensure

    for name in INLINE:
        yield mock.patch.object(CppVecOverrides, name, staticmethod(partial(code, name)))


def numpy_generator(seed: int, purpose: str, *position: int) -> np.random.Generator:
    """Return the NumPy generator of a purpose at a position, such as ("order", epoch)."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *position])


def random_bits(key: Tensor, ids: Tensor, width: int) -> Tensor:
    """Return random whole numbers (N, width) from 0 to 2**31 - 1, a function of key (), ids (N,) and column.

    A hash of 32 bits, once per id, column and number (https://nullprogram.com/blog/2018/07/31, "lowbias32"), because
    a generator of torch draws other numbers on every device. Masks of 19,074 nodes take 4 ms in place of 8.
    """
    low, high = (key.bitwise_and(2**31 - 1).int(), (key >> 31).int())
    rows = _mix(ids.int().mul(-1640531527).bitwise_xor(low)).unsqueeze(1)
    columns = _mix(torch.arange(width, dtype=torch.int32, device=ids.device).mul(-2048144789).bitwise_xor(high))
    return _mix(rows + columns).bitwise_and_(2**31 - 1)


def _mix(x: Tensor) -> Tensor:
    """Mix the bits of whole numbers of 32 bits, whose products overflow."""
    for shift, factor in ((16, 0x7FEB352D), (15, -0x7B935975), (16, 1)):
        x = x.bitwise_xor_((x >> shift).bitwise_and_(2 ** (32 - shift) - 1)).mul_(factor)
    return x


def torch_generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """Return the torch generator of a purpose at a position, such as ("dropout", epoch, step)."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), *position])
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Let the processor take subnormal numbers as zero, until the context ends: below 1.2e-38 in float32, 2.2e-308 in float64.

    Weight decay leaves such numbers in weights that have no gradient, and with many of them a Transformer takes ten times as
    long. The setting is one of this thread, for the numbers of Python and NumPy too; threads that start in the context keep
    it, earlier ones do not get it. Processors without the setting ignore it.
    """
    # Not for a whole process: the setting holds for the floats of Python, too (hypothesis refuses to draw any under
    # it). A step of a Tree Transformer with 83,000 subnormal numbers among 820,000 takes 26 ms in place of 143 to 212.
    # `Model.score`, completion and the extras on stacks and values do without it.
    are_zero = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(are_zero)


def once_differentiable(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Decorate the `backward` of a `torch.autograd.Function` that saves all inputs which need a gradient, or outputs of them.

    torch's decorator of this name cuts the gradients off from the inputs. `backward` through them raises, but
    `torch.autograd.grad` of them with respect to parameters does not meet the cut: it returns what other paths contribute.
    Here the gradients depend on all that was saved, so that both raise RuntimeError.
    """

    # Without it wrong second derivatives came without an error. It costs a step of Tree-SMU 24 operations (28 at batch 1,024).

    @wraps(backward)
    def wrapped(ctx: Any, *output_gradients: Tensor | None) -> Gradients:
        with torch.no_grad():
            gradients = backward(ctx, *output_gradients)
        if not torch.is_grad_enabled():
            return gradients
        present = [gradient for gradient in gradients if gradient is not None]
        sources = [tensor for tensor in (*output_gradients, *ctx.saved_tensors) if tensor is not None and tensor.requires_grad]
        connected = iter(_FirstOrder.apply(len(present), *present, *sources))
        return tuple(None if gradient is None else next(connected) for gradient in gradients)

    return wrapped


class _FirstOrder(torch.autograd.Function):
    """(gradients, what they depend on) -> the same gradients, which cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Gradients:
        raise RuntimeError(
            "Second derivatives are not available here: this gradient is computed by a formula of its own. The engine 'topo' "
            "and the method `step` of a sequence cell consist of torch's own operations, which can be differentiated twice."
        )
