"""The length of a path through the library: the files and functions that a command enters, except code that runs at import.

python -m benchmarks.reading_path            `treestack verify`, and `treestack train` up to the first gradient
"""

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import dgl_treestack
from dgl_treestack.cli import main as treestack

LIBRARY = str(Path(dgl_treestack.__file__).parent)
INLINE = {"<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}


class FirstGradient(Exception):
    """Stops a command at the first gradient."""


def entered(command: Callable[[], Any]) -> list[CodeType]:
    """Code of the library's functions that a command enters, each once, in order."""
    codes: dict[CodeType, None] = {}
    importing = 0  # depth of nested imports of library modules

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(LIBRARY):
            return
        if code.co_name == "<module>":
            importing += 1 if event == "call" else -1
        elif not importing and event == "call" and code.co_name not in INLINE:
            codes[code] = None

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(FirstGradient, SystemExit):
            command()
    finally:
        sys.setprofile(None)
    return list(codes)


def stop(*_: Any, **__: Any) -> None:
    raise FirstGradient


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        train = ["train", "configs/quickstart/tree_smu.toml", "--output-dir", folder, "--quiet"]
        commands = {"verify": ["verify", "sin(x)**2 + cos(x)**2 = 1"], "train": train}
        backward, torch.Tensor.backward = torch.Tensor.backward, stop  # type: ignore[method-assign]
        try:
            for name, arguments in commands.items():
                codes = entered(lambda arguments=arguments: treestack(arguments))
                files = {code.co_filename for code in codes}
                print(f"{name:<8}{len(files):>4} files {len(codes):>4} functions")
                if "--list" in sys.argv:
                    for code in codes:
                        print(f"    {Path(code.co_filename).relative_to(LIBRARY)} {code.co_qualname}")
        finally:
            torch.Tensor.backward = backward  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
