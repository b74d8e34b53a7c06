"""The cache of native code on disk: a folder to which its owner alone can write, with files that are as they were built.

The name of a file has the key of what it was built from, and the SHA-256 of its content: a damaged file is not loaded but built
again. Whoever can write to the folder can run code as its owner; so it is refused when others can.
"""

import atexit
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest import mock

from dgl_treestack.errors import ConfigurationError

REMEDY = "Set TREESTACK_CACHE_DIR to a folder of your own, or train without native code: --compile off."
DIGITS = 40  # of a key, and of the digest of a content


def digest(*parts: object) -> str:
    """Return a cache key: a hash of the parts' representations."""
    return hashlib.sha256(repr([*parts]).encode()).hexdigest()[:DIGITS]


def folder() -> Path:
    """Return the folder of the cache: TREESTACK_CACHE_DIR, or a folder in the user's cache. It is made if there is none.

    Raises ConfigurationError when it cannot be made, or when others own it, can write to it, or could put another one in its
    place. A folder above it may be writable for the user's primary group, of which there is often one per user, and for all
    where the sticky bit keeps them from renaming what is not theirs, as in /tmp.
    """
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgl_treestack"
    path = Path(os.environ.get("TREESTACK_CACHE_DIR") or path).absolute()
    fault, user = "", os.geteuid()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        for parent in path.resolve().parents:
            above = parent.stat()
            by_group = above.st_mode & stat.S_IWGRP and above.st_gid not in (0, os.getegid())
            is_writable = (above.st_mode & stat.S_IWOTH or by_group) and not above.st_mode & stat.S_ISVTX
            if above.st_uid not in (0, user) or is_writable:
                fault = f"can be replaced by others, who own {parent} or can write to it, and could run code as you."
                break
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            fault = (
                "can be written by others, who could run code as you. Delete it, or, if you know what is in it, chmod 700 it."
            )
        if info.st_uid != user:
            fault = "belongs to another user, who could run code as you."
    except OSError as error:
        fault = f"cannot be used: {error.strerror}."
    if fault:
        raise ConfigurationError(f"The folder of native code, {path}, {fault} {REMEDY}")
    return path


def is_intact(path: Path) -> bool:
    """Return whether a file of the cache has the content that it was built with."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS] == path.stem.rpartition("-")[2]
    except OSError:
        return False


def cached(key: str, suffix: str, build: Callable[[Path], Path]) -> Path:
    """Return the file of a key, which is built unless it is there. Concurrent processes wait for the first one.

    build: writes the file into a folder. Raises ConfigurationError when the cache cannot be used.
    """
    if found := _find(key, suffix):
        return found
    place = folder()
    try:
        with open(place / f"{key}.lock", "w") as lock, tempfile.TemporaryDirectory(dir=place) as temporary:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if found := _find(key, suffix):
                return found
            built = build(Path(temporary))
            with built.open("rb") as file:
                path = place / f"{key}-{hashlib.file_digest(file, 'sha256').hexdigest()[:DIGITS]}{suffix}"
            os.replace(built, path)
            return path
    except OSError as error:
        raise ConfigurationError(f"The folder of native code, {place}, cannot be used: {error.strerror}. {REMEDY}") from None


def _find(key: str, suffix: str) -> Path | None:
    """Return the intact file of a key, None if there is none; damaged ones are deleted."""
    for path in sorted(folder().glob(f"{key}-*{suffix}")):
        if is_intact(path):
            return path
        with suppress(OSError):  # the folder may be read-only
            path.unlink(missing_ok=True)
    return None


@contextmanager
def private_folders() -> Iterator[None]:
    """Within the block, Inductor writes into the cache, and what it unpacks into a folder that is deleted at exit.

    By default both are in the shared temporary folder, one of them under a name that others can guess and make first.
    """
    settings = {"TMPDIR": _unpacked(os.getpid())}
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        settings["TORCHINDUCTOR_CACHE_DIR"] = str(folder() / "inductor")
    with mock.patch.dict(os.environ, settings):
        yield


@cache
def _unpacked(process: int) -> str:
    """Return a temporary folder of this process. process: its id, because a forked process needs one of its own."""
    path = tempfile.mkdtemp(prefix="treestack-")

    @atexit.register
    def _() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    return path
