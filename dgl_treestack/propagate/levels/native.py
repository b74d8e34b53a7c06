"""`native.cpp` as a module of Python, compiled when it is first needed and kept on disk."""

import hashlib
import importlib.util
import logging
import platform
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate.levels.cache import build_once, cache_folder

logger = logging.getLogger(__name__)

SOURCES = [Path(__file__).with_name(name) for name in ("native.cpp", "steps.h", "maps.h", "blas.h", "room.h")]
PYTHON = Path(sysconfig.get_path("include"))
FLAGS = ("-O2", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden")


@cache
def compiler() -> str | None:
    """A C++ compiler that Inductor can use, where the headers of Python are there too."""
    from torch._inductor import cpp_builder, exc  # which takes a second

    try:
        found = cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return None
    return found if (PYTHON / "Python.h").exists() else None


@cache
def native() -> Any:
    """The module. Raises ConfigurationError where it cannot be compiled."""
    place = [torch.__version__, sys.implementation.cache_tag, platform.machine(), sys.platform, FLAGS]
    key = hashlib.sha256(repr([*(source.read_text() for source in SOURCES), place]).encode()).hexdigest()[:40]
    path = cache_folder() / f"native-{key}.so"
    build_once(path, _build)
    return _imported(path)


def _build(folder: Path) -> Path:
    command = compiler()
    if command is None:
        raise ConfigurationError("Kernels need a C++ compiler and Python.h, which are not here; take 'levels'.")
    logger.info("compiling the loops of sweeps")
    home, made = Path(torch.__file__).parent, folder / "native.so"
    folders = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}", f"-I{PYTHON}", f"-L{home / 'lib'}"]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    libraries = ["-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"]
    arguments = [*FLAGS, abi, str(SOURCES[0]), "-o", str(made), *folders, *libraries]
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ConfigurationError(f"{SOURCES[0].name} cannot be compiled here; take engine 'levels'.\n{done.stderr}")
    return made


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("treestack_native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
