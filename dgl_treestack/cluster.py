"""Independent tasks on a Ray cluster, in place of processes of this machine (`--cluster`).

A task is a function of this package with plain arguments, run by the Python of a node, which has the package and the data
installed. Files that a task writes go to a folder that all machines share, or come back through Ray's object store.
"""

import io
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgl_treestack.errors import ConfigurationError, OutputError

logger = logging.getLogger(__name__)
CONNECT = 10.0  # seconds to wait for the head of a cluster
RETRIES = 10  # of a task whose node is lost
CHILD_OF = "TREESTACK_PARENT"  # environment variable of a command started by another one: the process id of its parent
MARKER = ".shared"  # files in an output folder begin with it
LAST = 20_000  # characters of a failed command's messages that come back


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster. address: of its head, `auto` for one that this machine belongs to. cpus, gpus: of a task."""

    address: str
    cpus: float = 1.0
    gpus: float = 0.0

    @property
    def width(self) -> int:
        """How many tasks the cluster can run at once, while a pool is open."""
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1) / max(self.cpus, 1e-3)))


class RayPool(Executor):
    """A `concurrent.futures.Executor` whose tasks run on the nodes of a cluster, in the folder where the driver was started.

    It is connected until it is shut down, which `with` does. Raises ConfigurationError without Ray, and when there is no
    cluster at the address.
    """

    def __init__(self, cluster: Cluster):
        try:
            import ray
        except ImportError:
            raise ConfigurationError("--cluster needs Ray: pip install 'dgl-treestack[cluster]'.") from None
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if match := re.fullmatch(r"([^/]+):(\d+)", cluster.address):  # or Ray would try for minutes
                socket.create_connection((match[1], int(match[2])), timeout=CONNECT).close()
            ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            remedy = "Start one: ray start --head."
            raise ConfigurationError(f"There is no Ray cluster at {cluster.address!r} ({error}). {remedy}") from None
        finally:
            signal.signal(signal.SIGTERM, handler)  # which Ray replaces
        self.options = {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus, "max_retries": RETRIES}
        self.task = ray.remote(_run_in_folder)
        self.unfinished: dict[Any, Future] = {}  # object reference -> its future

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future:
        """Run a function on some node. Its TreestackErrors are raised by the future; OutputError when nodes are lost."""
        reference = self.task.options(**self.options).remote(os.getcwd(), function, arguments, options)
        future: Future[Any] = Future()
        self.unfinished[reference] = future
        reference.future().add_done_callback(lambda done: self._finish(reference, done))
        return future

    def _finish(self, reference: Any, done: Future) -> None:
        """Pass a result or an error on to the future of a task."""
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        future = self.unfinished.pop(reference, None)
        if future is None:
            return
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        elif isinstance(error, TaskCancelledError):
            future.cancel()
        elif isinstance(error, RayTaskError) and error.cause is not None:
            future.set_exception(error.cause)
        elif isinstance(error, RayError):
            lost = "The node of a task was lost, and so were those that tried again" if "died" in str(error) else str(error)
            future.set_exception(OutputError(f"{lost}. Run the same command again to continue."))
        else:
            future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what is queued or running, whatever is asked for; a command that runs gets SIGTERM, so that it saves."""
        import ray

        for reference in list(self.unfinished):
            ray.cancel(reference, force=False)
        ray.shutdown()


def _run_in_folder(folder: str, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Run a function in a folder, if this machine has it."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if Path(folder).is_dir():
        os.chdir(folder)
    return function(*arguments, **options)


@dataclass(frozen=True)
class Command:
    """A `treestack` command. output: the folder that it writes into. inputs: small files that it reads. Both are arguments."""

    arguments: tuple[str, ...]
    output: Path
    inputs: tuple[Path, ...] = ()


@contextmanager
def marked(folder: Path) -> Iterator[str]:
    """Put a file into a folder, by which a machine can tell whether it shares the folder. Yields the file's name.

    Files that commands of this machine left when they were killed are deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # One file for all commands: with one each, a killed driver left as many. Two drivers of one folder keep each other's.
    machine = f"{MARKER}-{socket.gethostname()}"
    for left in folder.glob(f"{machine}-*-*"):
        if not Path("/proc", left.name.split("-")[-2]).exists():
            left.unlink(missing_ok=True)
    marker = folder / f"{machine}-{os.getpid()}-{uuid.uuid4().hex}"
    marker.touch()
    try:
        yield marker.name
    finally:
        marker.unlink(missing_ok=True)


def start_command(arguments: Iterable[str]) -> subprocess.Popen[str]:
    """Start a `treestack` command of one thread, which ends with this process, with its messages in a pipe."""
    # A killed command once left children training, as a killed node leaves what its worker has started, and the next
    # start trained the same runs beside them.
    settings = {**os.environ, "OMP_NUM_THREADS": "1", CHILD_OF: str(os.getpid())}
    command = [sys.executable, "-m", "dgl_treestack", *arguments]
    return subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)


# The largest code of many commands is what counts, and -9 of a killed one would pass for success.
def exit_code(returncode: int) -> int:
    """Return the exit code of a process as a shell gives it: 128 + n for one that was ended by signal n."""
    return returncode if returncode >= 0 else 128 - returncode


def run_commands(commands: Sequence[Command], cluster: Cluster) -> int:
    """Run commands on a cluster, and return the largest exit code.

    What a command wrote on a machine that does not share its output folder is brought back when it ends.
    """
    codes = [0]
    with ExitStack() as stack, RayPool(cluster) as pool:
        folders = {command.output for command in commands}
        marker_of_folder = {folder: stack.enter_context(marked(folder)) for folder in folders}
        tasks = {}
        for command in commands:
            inputs = [path.read_bytes() for path in command.inputs]
            place = (command.output.resolve(), marker_of_folder[command.output])
            tasks[pool.submit(_run_command, command, *place, inputs)] = command
        from tqdm.auto import tqdm  # not above: it takes 50 ms, in every command

        for task in tqdm(as_completed(tasks), total=len(tasks), desc="runs", disable=None):
            code, messages, content = task.result()
            if content is not None:  # folders, each put there complete or not at all; one that is there already is replaced
                output = tasks[task].output
                with tempfile.TemporaryDirectory(dir=output, prefix=".unpacked-") as unpacked:
                    extract(content, unpacked)
                    for path in Path(unpacked).iterdir():
                        shutil.rmtree(output / path.name, ignore_errors=True)
                        path.replace(output / path.name)
            if code:
                logger.error(messages.rstrip())
            codes.append(exit_code(code))
    return max(codes)


def _run_command(command: Command, output: Path, marker: str, inputs: Sequence[bytes]) -> tuple[int, str, bytes | None]:
    """Run a command on this machine; return its exit code, its last messages and, unless the folder is shared, its output."""
    with tempfile.TemporaryDirectory() as folder:
        written = output if (output / marker).is_file() else Path(folder) / "output"
        replaced = {str(command.output): str(written)}  # arguments that are paths of the other machine -> paths here
        for i, (path, content) in enumerate(zip(command.inputs, inputs, strict=True)):
            copy = Path(folder) / f"{i}-{path.name}"
            copy.write_bytes(content)
            replaced[str(path)] = str(copy)
        with start_command([replaced.get(argument, argument) for argument in command.arguments]) as process:
            try:
                _, messages = process.communicate()
            except BaseException:  # the task was cancelled
                process.terminate()
                process.wait()
                raise
        return process.returncode, messages[-LAST:], None if written is output else pack(written, written.glob("*"))


def pack(folder: Path, paths: Iterable[Path]) -> bytes:
    """Return files and folders in a folder as the bytes of an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            archive.add(path, arcname=str(path.relative_to(folder)))
    return buffer.getvalue()


def extract(content: bytes, folder: str | Path) -> None:
    """Put what `pack` has packed into a folder."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
