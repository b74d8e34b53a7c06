"""csrc/sweep.cpp as a Python module, with the custom operator `treestack::linear`; and other native code without torch."""

import ctypes
import importlib.util
import logging
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgl_treestack import _torch
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate.compiled.cache import cached, digest, private_folders

logger = logging.getLogger(__name__)

SOURCES = [Path(__file__).parent / "csrc" / name for name in ("sweep.cpp", "linear.h", "workers.h")]
PYTHON = Path(sysconfig.get_path("include"))
FLAGS = ("-O3", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden")

_threads = 1


def set_threads(count: int) -> None:
    """Set the number of threads of sweeps of native code, one by default. Results do not depend on it, to the last bit."""
    global _threads
    _threads = count


def threads() -> int:
    return _threads


@cache
def unavailable() -> str:
    """Why native code cannot be used here; empty if it can."""
    try:
        with private_folders():  # torch makes a folder when its compiler is imported
            reason = _torch.missing()
    except ConfigurationError as error:
        return str(error).rstrip(".")
    if reason:
        return reason
    return "" if (PYTHON / "Python.h").exists() else "there is no Python.h"


def platform_key() -> list[object]:
    """What native code depends on besides its source: torch, Python, the processor."""
    capability = torch.backends.cpu.get_cpu_capability()
    return [torch.__version__, sys.implementation.cache_tag, platform.machine(), sys.platform, capability]


@cache
def native() -> Any:
    """The native module, compiled if it is not cached. Raises ConfigurationError if it cannot be compiled."""
    path = cached(digest(*(source.read_text() for source in SOURCES), platform_key(), FLAGS), ".so", _build)
    spec = importlib.util.spec_from_file_location("treestack_native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    @torch.library.register_fake("treestack::linear")
    def _(x: Tensor, call: int, width: int, transposed: bool) -> Tensor:
        return x.new_empty(*x.shape[:-1], width)

    return module


def _build(folder: Path) -> Path:
    # 25 s, once. Kernels need the compiler anyway, Inductor finds it, and pybind11 comes with torch: no new dependency.
    logger.info("compiling the native library")
    torch_folder = Path(torch.__file__).parent
    include = torch_folder / "include"
    folders = [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}", f"-I{PYTHON}", f"-L{torch_folder / 'lib'}"]
    # As torch was built, or the linker does not find its symbols.
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return _compile(SOURCES[0], [abi, *folders, "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"], folder)


@cache
def plain(source: Path) -> ctypes.CDLL:
    """A library of C++ that needs neither torch nor Python, compiled if it is not cached: a second or two.

    Raises ConfigurationError if it cannot be compiled.
    """
    # Sums of products in vectors, in another order than written; not -ffast-math, which changes all arithmetic of a process.
    options = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]
    if torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        options.append("-march=x86-64-v3")
    key = digest(source.read_text(), platform_key(), FLAGS, options)
    return ctypes.CDLL(str(cached(key, ".so", partial(_compile, source, options))))


def _compile(source: Path, options: Sequence[str], folder: Path) -> Path:
    if reason := unavailable():
        raise ConfigurationError(f"Native code cannot be compiled: {reason}. Use the engine 'levels'.")
    file = folder / "native.so"
    command = [str(_torch.cpp_compiler()), *FLAGS, str(source), "-o", str(file), *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise ConfigurationError(f"{source.name} cannot be compiled here; use the engine 'levels'.\n{process.stderr}")
    return file
