import gc
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings

from dgl_treestack import _dgl

torch.set_num_threads(1)
NO_DGL = sys.version_info >= (3, 13) and bool(_dgl.REASON)
ABOUT_SHAPES = ("test_equations", "test_memory")  # files
ABOUT_SHAPES_OF_CELLS = ("test_equals_the_recursion", "test_external_input_reaches_inner_nodes_in_any_order", "test_dropout")

# No deadline: the machine is shared, and a slow moment is no failure. In CI the same examples every time.
settings.register_profile("shared", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("shared")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Shapes are checked, call by call, in the tests of what has them, with `topo`; it takes half of their time."""
    engine = item.callspec.params.get("engine", "topo") if hasattr(item, "callspec") else "topo"
    is_about_shapes = item.path.stem in ABOUT_SHAPES or item.originalname in ABOUT_SHAPES_OF_CELLS
    jaxtyping.config.update("jaxtyping_disable", not is_about_shapes or engine != "topo")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On a Python for which there is no DGL, a test that fails because it needs DGL is skipped; elsewhere it fails."""
    report = yield
    if NO_DGL and report.failed and item.path.stem != "test_without_dgl":  # which is about the message
        said = [*traceback.format_exception(call.excinfo.value), *(text for _, text in report.sections)]
        if "DGL is needed here" in "".join(said):  # of this process, or of one whose output the test shows
            line = _dgl._Missing.__init__.__code__.co_firstlineno  # one place: the summary counts these tests in one line
            report.outcome, report.longrepr = "skipped", (_dgl.__file__, line, f"Skipped: DGL is needed, and {_dgl.REASON}")
    return report


@pytest.fixture(scope="session", autouse=True)
def quick_process() -> Iterator[None]:
    """What hundreds of small trainings would wait for: a search for garbage among all that stays loaded, and the disk."""
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)  # which ends a training
        patch.setattr(os, "fsync", lambda file: None)  # files of a test need not survive a crash of the machine
        yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own for kernels, which the tests of a file share. Inductor's headers are those of the user's cache."""
    # not above: the suite checks the shapes of what is imported later
    from dgl_treestack.propagate.compiled import cache as disk
    from dgl_treestack.propagate.compiled import library

    folder = tmp_path_factory.mktemp("kernels")
    if not library.unavailable():
        shutil.copy(library.native().__file__, folder)  # of the user's cache, for the processes that a test starts
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(disk.folder() / "inductor"))
        patch.setenv("TREESTACK_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def treestack(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command in this process, which has loaded the libraries already: returns what it prints, errors for an exit code.

    Bad input, exit code 2, is one error.
    """
    from dgl_treestack.cli import main  # not above, as in `cache`

    def call(*arguments: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert (left.value.code or 0) == code, f"{arguments}\n{printed.out}\n{printed.err}"
        assert code != 2 or printed.err.count("error: ") == 1, printed.err
        return printed.err if code else printed.out

    return call


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list]:
    """`noted(owner, name, what)`: a function goes on as it is, and `what(result, *arguments)` of its calls is in the list."""

    def watch(owner: object, name: str, what: Callable = lambda _, *arguments: arguments) -> list:
        real, notes = getattr(owner, name), []

        def call(*arguments: object, **options: object) -> object:
            result = real(*arguments, **options)
            notes.append(what(result, *arguments))
            return result

        monkeypatch.setattr(owner, name, call)
        return notes

    return watch


@pytest.fixture
def clean_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, also by entry points of packages that it installs, is forgotten."""
    from dgl_treestack import cells, resources, tasks  # not above, as in `cache`
    from dgl_treestack.expression import language

    monkeypatch.setattr(resources, "faults", {})
    for registry in (cells.registry, tasks.registry, language.registry):
        monkeypatch.setattr(registry, "registered", dict(registry.registered))
        monkeypatch.setattr(registry, "of_packages", registry.of_packages)
        del registry.of_packages  # which is read anew when asked for


@pytest.fixture
def authors() -> Path:
    """The folder with the authors' data, weights and outputs; the test is skipped where it is not given."""
    folder = os.environ.get("TREESTACK_AUTHORS_DIR")
    if not folder:
        pytest.skip("TREESTACK_AUTHORS_DIR is not set: the authors' files are not part of the project")
    return Path(folder)


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what tests noted with `record_property("note", ...)`."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    for note in sorted(value for report in reports for name, value in report.user_properties if name == "note"):
        terminalreporter.write_line(note)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A whole suite fails in which most tests are skipped for want of DGL: something else needs it that should not."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    is_whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    counts = [len(reporter.stats.get(outcome, [])) for outcome in ("passed", "skipped")] if reporter else [0, 0]
    if NO_DGL and is_whole and counts[0] < counts[1]:
        reporter.write_line("More tests were skipped, for want of DGL, than passed.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
