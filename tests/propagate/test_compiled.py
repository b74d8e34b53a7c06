"""The same numbers from native code: one cell here, for time; `python -m benchmarks.compiled` goes through all."""

import gc
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from each_case import assert_raises, cases
from every_cell import assert_same_gradients, batch_of, gradients, make, needs_compiler
from small_runs import assert_same_when_stopped, small_config

from dgl_treestack import Equation, Example, Run, _torch, cells
from dgl_treestack.cells.tree_rnn import TreeRNN
from dgl_treestack.data.vocabulary import PRESETS
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.propagate import Options, draw_noise, propagate, set_threads
from dgl_treestack.propagate.compiled import cache as disk
from dgl_treestack.propagate.compiled import kernels, library
from dgl_treestack.propagate.compiled.traced import Form, TracedStep
from dgl_treestack.runs.run import build_model
from dgl_treestack.training import engine
from dgl_treestack.training.start import start
from dgl_treestack.training.trees import TreeObjective

BINARY = ["x", "x + y", "x*(y + x) + y = (x + y)*(x*y)", "(x + y)*x = x", "x*y*x*y + x", "y + y = x*(x + x)"]

pytestmark = pytest.mark.usefixtures("cache")


def built(test):
    """Of a test that has native code built."""
    return needs_compiler(pytest.mark.slow(test))


def smu(**settings):
    """The cell of `small_config`: all tests here share its kernels."""
    return make("tree_smu", vocabulary=PRESETS["canonical"], hidden=4, **{"stack_size": 2, "dropout": 0.2, **settings})


@built
def test_native_code_has_the_numbers_of_topo(cache):
    """Batches of changing size down to one node, buffers never the same. One arity, for time."""
    cell, before = smu().train(), set(cache.glob("*.pt2"))
    for chosen in (BINARY, BINARY[:1], BINARY[:3] * 4):
        batch = batch_of(*chosen)
        assert_same_gradients(cell, batch, "levels/compiled")
        with torch.no_grad():
            wanted = propagate(batch, cell, engine="topo").clone()
            assert torch.allclose(propagate(batch, cell, engine="levels/compiled"), wanted, rtol=1e-10, atol=1e-10)
    kernels_of_cell = set(cache.glob("*.pt2")) - before
    assert len(kernels_of_cell) <= 2 <= len(before | kernels_of_cell)  # forward and backward, whichever test built them


@built
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12, in a process with threads
def test_numbers_do_not_depend_on_threads(cache):
    """Levels of 300 and 700 rows: three pieces each, and a level of few rows. The last run is in a forked process."""
    cell = smu().train().float()
    batch = batch_of(*["(x + y)*x = x", "x*(y + x) + y = (x + y)*(x*y)"] * 150, "(x + y)*(x*y)*x*y = y")
    noise = draw_noise(cell, batch, torch.Generator().manual_seed(1))

    def numbers(threads):
        set_threads(threads)
        computed = gradients(cell, batch, "levels/compiled", noise, (), Options(share=False))
        used = [gradient for gradient in computed.values() if gradient is not None]
        return hashlib.sha256(b"".join(gradient.numpy().tobytes() for gradient in used)).hexdigest()

    try:
        expected = numbers(1)
        assert [numbers(threads) for threads in (2, 3, 2, 1)] == [expected] * 4
        if (child := os.fork()) == 0:
            os._exit(numbers(2) != expected)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        set_threads(1)
    assert_same_gradients(cell.double(), batch, "levels/compiled")


@built
def test_a_compiled_run_resumes_compiled_to_the_same_numbers(tmp_path):
    config = small_config(tmp_path, compile="on", unary=False)  # one arity, for time
    assert_same_when_stopped(config, TreeObjective, [(5,)], tmp_path)
    for name in ("whole", "stopped at (5,)"):
        assert json.loads((tmp_path / name / "small-0" / "environment.json").read_text())["kernels"] == "compiled"
    plain = start(small_config(tmp_path, unary=False), 0, tmp_path / "plain", quiet=True)
    compiled = Run(tmp_path / "whole" / "small-0")
    for ours, theirs in zip(compiled.read_metrics(), plain.read_metrics(), strict=True):
        assert ours["validation_loss"] == pytest.approx(theirs["validation_loss"], rel=1e-4)


@built
@cases(
    ("package", False, [{"normalise": "none"}]),  # without cache entries it is traced again, and its code is found
    ("trace", True, [{"normalise": "none"}, {"activation": "sigmoid"}, {"noop": False}]),
)
def test_a_kernel_is_built_and_traced_once(cache, monkeypatch, name, notes, others):
    batch = batch_of(BINARY[2])
    first = propagate(batch, smu(), engine="levels/compiled").clone()
    if not notes:
        for note in cache.glob("*.json"):
            note.unlink()

    def refuse(*_, **__):
        raise AssertionError("made again")

    monkeypatch.setattr(_torch, name, refuse)
    assert torch.equal(propagate(batch, smu(), engine="levels/compiled"), first)
    for changed in others:
        assert_raises(AssertionError, "made again", propagate, batch, smu(**changed), engine="levels/compiled")


@built
def test_a_kernel_is_loaded_again_only_for_cells_that_live_at_once(cache):
    """The linker never unloads native code."""
    batch = batch_of(BINARY[2])

    def mapped_libraries():
        gc.collect()
        return len({line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line})

    counts = []
    for _ in range(5):
        propagate(batch, smu(), engine="levels/compiled")
        counts.append(mapped_libraries())
    assert counts[2:] == counts[1:2] * 3  # what has traced the first cell may keep it
    cells_alive = [smu() for _ in range(3)]
    for cell in cells_alive:
        propagate(batch, cell, engine="levels/compiled")
    assert mapped_libraries() > counts[-1]


def cut(content):
    return content[: len(content) // 2]


@built
@pytest.mark.parametrize(("suffix", "damage"), [("json", cut), ("json", lambda _: b'["gone.pt2", [0]]'), ("pt2", cut)])
def test_a_damaged_file_of_the_cache_is_replaced(suffix, damage, cache):
    batch, cell = batch_of(BINARY[2]), smu()
    with torch.no_grad():
        first = propagate(batch, cell, engine="levels/compiled").clone()
        paths = [*cache.glob(f"*.{suffix}")]
        assert paths
        for path in paths:
            content = path.read_bytes()
            path.unlink()  # kernels that are loaded stay as they are
            path.write_bytes(damage(content))
        assert torch.equal(propagate(batch, smu(), engine="levels/compiled"), first)
    assert any(disk.is_intact(path) for path in cache.glob(f"*.{suffix}"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TREESTACK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(place, mode):
    """A file that somebody else has put there is not run."""
    place.mkdir()
    planted = place / f"{disk.digest('x')}-{hashlib.sha256(b'planted').hexdigest()[: disk.DIGITS]}.so"
    planted.write_bytes(b"planted")
    assert disk.cached(disk.digest("x"), ".so", None) == planted
    place.chmod(mode)
    with pytest.raises(ConfigurationError, match="can be written by others, who could run code as you"):
        disk.cached(disk.digest("x"), ".so", None)


def test_a_folder_of_others_or_below_one_of_theirs_is_refused(place, monkeypatch):
    assert disk.folder() == place and stat.S_IMODE(place.stat().st_mode) == 0o700
    place.parent.chmod(0o777)
    assert_raises(ConfigurationError, "can be replaced by others", disk.folder)
    place.parent.chmod(0o1777)  # as /tmp: others cannot rename what is not theirs
    assert disk.folder() == place
    place.parent.chmod(0o770)
    assert disk.folder() == place, "the primary group is the user's own"
    monkeypatch.setattr(os, "getegid", lambda: place.stat().st_gid + 1)
    if place.stat().st_gid:  # that of root is not a group of others
        assert_raises(ConfigurationError, "can be replaced by others", disk.folder)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert_raises(ConfigurationError, "belongs to another user", disk.folder)


@pytest.fixture
def asked_anew():
    """Whether there is native code is asked again, in the test and after it."""
    questions = (_torch.missing, _torch.cpp_compiler, _torch._warn_without, library.unavailable)
    [question.cache_clear() for question in questions]
    yield
    [question.cache_clear() for question in questions]


@needs_compiler
@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("form", ["a file", "a folder of others"])
def test_a_run_goes_on_without_a_cache(form, place, tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "dgl_treestack")
    if form == "a file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777)
    monkeypatch.setattr(engine, "LONG", 0)
    with pytest.raises(ConfigurationError, match="The folder of native code"):
        start(small_config(tmp_path, compile="on", schedule={"epochs": 1}), 0, tmp_path / "on", quiet=True)
    run = start(small_config(tmp_path, compile="auto", schedule={"epochs": 1}), 0, tmp_path / "auto", quiet=True)
    assert run.environment["kernels"] == "none" and "The folder of native code" in caplog.text


def test_a_compiler_without_a_shared_library_of_c_plus_plus_is_not_used(tmp_path, monkeypatch):
    """g++ would put a copy of libstdc++.a into native code; seen on a machine with a GPU, where it crashed the process."""
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\necho "${1#-print-file-name=}"\n')  # what g++ prints for a file that it does not find
    compiler.chmod(0o700)
    monkeypatch.setattr(_torch, "cpp_compiler", lambda: str(compiler))
    assert _torch.missing.__wrapped__() == f"{compiler} finds no libstdc++.so"


@built
def test_nothing_is_left_in_the_temporary_folder_or_that_of_inductor(tmp_path, cache):
    """Inductor's own folder serves all processes, which would read each other's half-written files."""
    program = """
from every_cell import batch_of, make
from torch._inductor.cpu_vec_isa import pick_vec_isa
from dgl_treestack.propagate import propagate
from dgl_treestack.propagate.compiled.cache import folder, private_folders
with private_folders():
    pick_vec_isa()  # compiles its checks in Inductor's folder, with locks
before = {*folder().joinpath("inductor").rglob("*")}
cell = make("tree_rnn").requires_grad_(False)
propagate(batch_of("x*(y + x) + y = (x + y)*(x*y)"), cell, engine="levels/compiled")
assert {*folder().joinpath("inductor").rglob("*")} == before
"""
    temporary, headers = tmp_path / "temporary", Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "precompiled_headers")
    for folder in (temporary, headers, cache / "inductor"):
        folder.mkdir(parents=True, exist_ok=True)
    (cache / "inductor" / headers.name).symlink_to(headers)  # they take many seconds, and are made with locks
    settings = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    settings.pop("TORCHINDUCTOR_CACHE_DIR")
    subprocess.run([sys.executable, "-c", program], env=settings, check=True)
    assert not [*temporary.iterdir()] and [*cache.glob("*.pt2")]


@pytest.mark.slow
def test_equal_kernels_have_equal_cache_keys():
    """For every cell and all settings of models, functions included; a cell of another package has none."""
    library.native()

    def keys(cell):
        """Of both kernels for two children."""
        step = TracedStep(cell, Form(2, False, ()), torch.float64, torch.device("cpu"))
        return kernels.cache_key(step, False), kernels.cache_key(step, True)

    class Own(TreeRNN):
        pass

    assert set(keys(Own(make("tree_rnn").operators, 8, 4))) == {None}
    kinds, names = {}, {}
    variants = [("tree_smu", {"normalise": "none"}), ("tree_smu", {"activation": "sigmoid"})]
    for name, settings in [*((name, {}) for name in cells.models()), *variants]:
        for cell in (make(name, **settings), make(name, seed=2, **settings)):
            kind, cache_keys = (type(cell), str(cell.settings)), keys(cell)
            assert None not in cache_keys
            assert kinds.setdefault(kind, cache_keys) == cache_keys and names.setdefault(cache_keys, kind) == kind


@built
def test_inline_functions_are_exact_to_a_few_digits_of_float32(cache):
    """In whole vectors and in what is left of a row; what is not a number, and what is infinite, included."""

    def kernel(tensors):
        return [torch.exp(tensors[0]), torch.sigmoid(tensors[0]), torch.tanh(tensors[0])]

    example = [torch.rand(1009, 50)]
    path, _ = kernels._compile(kernel, example, [1])
    run = torch._inductor.aoti_load_package(str(path))
    x = torch.cat([torch.linspace(-80, 80, 1000), torch.linspace(-12, 12, 3000), torch.linspace(-1e-3, 1e-3, 1000)])
    for actual, wanted in zip(run([x.view(-1, 50)]), kernel([x.view(-1, 50).double()]), strict=True):
        assert torch.allclose(actual.double(), wanted, rtol=3e-6, atol=1e-37)
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e9, -1e9, 0.0]).repeat_interleave(50).view(-1, 50)
    for actual, wanted in zip(run([odd]), kernel([odd]), strict=True):
        assert torch.allclose(actual, wanted, equal_nan=True)


@needs_compiler
def test_the_engine_of_a_run_is_chosen_once_and_native_code_with_other_numbers_is_not_used(tmp_path, monkeypatch):
    """With the steps uncompiled, and their numbers times `wrong_by`."""

    def build(step, backward):
        function, count = step.backward if backward else step.forward, len(step.examples(backward=backward)[0])
        return library.native().Graph(lambda tensors: [value * wrong_by for value in function(tensors)], [*range(count)])

    def choose(recorded=None, **changes):
        config = small_config(tmp_path, **changes)
        model = build_model(config.model)
        model.reset_parameters(torch.Generator().manual_seed(0))
        data = model.prepare([Example(Equation.parse("x + y = y + x"), 1)] * (320 if "schedule" in changes else 2))
        return engine.choose_engine(config, model, data, recorded or {}, torch.device("cpu"))

    monkeypatch.setattr(kernels, "compiled", build)
    wrong_by, long = 1.0, {"epochs": 500}
    assert choose() == "levels"
    assert choose(schedule=long) == "levels/compiled"
    assert choose(schedule=long, compile="off") == "levels"
    assert choose(compile="on") == "levels/compiled"
    assert choose(compile="on", engine="topo") == "topo"
    assert choose(compile="on", model={"name": "lstm", "hidden": 4}) == "levels", "an encoder has no kernels"
    assert choose({"kernels": "none"}, compile="on") == "levels"
    assert choose({"kernels": "compiled"}) == "levels/compiled"
    wrong_by = 1.01
    assert choose(schedule=long) == "levels"
    assert_raises(ConfigurationError, r"TreeSMU cannot be compiled \(native code gives other gradients\)", choose, compile="on")


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("module", ["torch._inductor.cpp_builder", "torch.fx.experimental.proxy_tensor"])
def test_a_torch_without_private_interfaces_trains_and_says_so_once(module, tmp_path, monkeypatch, caplog):
    """With public parts: no native code, and Adam in separate operations."""
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises ImportError
    package, _, name = module.rpartition(".")
    monkeypatch.delattr(sys.modules[package], name, raising=False)
    monkeypatch.delattr(torch, "_fused_adam_")
    monkeypatch.setattr(engine, "LONG", 0)
    run = start(small_config(tmp_path, compile="auto", schedule={"epochs": 1}), 0, tmp_path, quiet=True)
    assert run.done.exists()
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 2 and sum("no native code" in text for text in warned) == 1
    assert sum("no _fused_adam_; the package does without it" in text for text in warned) == 1
    with pytest.raises(ConfigurationError, match="other private interfaces"):
        start(small_config(tmp_path, compile="on", name="on"), 0, tmp_path, quiet=True)
