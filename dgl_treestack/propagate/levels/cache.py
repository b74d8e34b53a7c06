"""Where native code is kept, and how it comes there."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where native code is kept: TREESTACK_CACHE_DIR, or the user's cache."""
    own = os.environ.get("TREESTACK_CACHE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgl_treestack"


def build_once(path: Path, build: Callable[[Path], Path]) -> None:
    """Have a file made, if it is not there. build: makes it in a folder. Other processes wait meanwhile, then find it."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock, tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            os.replace(build(Path(folder)), path)
