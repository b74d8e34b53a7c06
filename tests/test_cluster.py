"""Tasks on a Ray cluster of three nodes give the bytes that one process gives, also when nodes or the command are killed.

The nodes are raylets on this machine, with one processor each.
"""

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from small_runs import contents, small_config

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dgl-treestack[cluster]'")

from dgl_treestack import cluster  # noqa: E402
from dgl_treestack.cli import main  # noqa: E402
from dgl_treestack.cluster import Cluster, Command, RayPool  # noqa: E402
from dgl_treestack.data import formats  # noqa: E402
from dgl_treestack.errors import ConfigurationError, DataError  # noqa: E402
from dgl_treestack.generate.presets import SetOptions  # noqa: E402
from dgl_treestack.generate.production import produce  # noqa: E402
from dgl_treestack.runs import configuration  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


@pytest.fixture(scope="module")
def nodes():
    from ray.cluster_utils import Cluster as Raylets

    raylets = Raylets(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        raylets.add_node(num_cpus=1)
    yield raylets
    raylets.shutdown()


def treestack(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert not stop.value.code


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A sweep of twelve runs, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "base.toml").write_text(configuration.dump(small_config(folder)))
    sweep = f'base = "{folder}/base.toml"\nseeds = [0, 1, 2]\n[grid]\n"model.hidden" = [3, 4]\nbatch_size = [8, 16]\n'
    (folder / "sweep.toml").write_text(sweep)
    treestack("sweep", folder / "sweep.toml", "--output-dir", folder / "one")
    assert len([*folder.glob("one/*/DONE")]) == 12
    return folder


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A generated set, and the sha256 of its files."""
    folder = tmp_path_factory.mktemp("generated") / "one"
    produce("quickstart", SetOptions(seed=3, equations=400), folder)
    return folder


def test_a_sweep_a_generation_and_evaluations(nodes, grid, generated, tmp_path):
    treestack("sweep", grid / "sweep.toml", "--output-dir", grid / "cluster", "--cluster", nodes.address)
    assert contents(grid / "cluster") == contents(grid / "one")
    produce("quickstart", SetOptions(seed=3, equations=400), tmp_path / "there", Cluster(nodes.address))
    assert contents(tmp_path / "there") == contents(generated)
    run, data = tmp_path / "run", str(generated / "test.jsonl.gz")
    shutil.copytree(next(grid.glob("one/small-*-0")), run)
    treestack("evaluate", run, data, "--output", tmp_path / "here.jsonl")
    treestack("evaluate", run, data, "--output", tmp_path / "there.jsonl", "--cluster", nodes.address)
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_completion_and_audit(nodes, generated, tmp_path, capsys):
    outputs = []
    for file, flags in ((tmp_path / "here.jsonl", ()), (tmp_path / "there.jsonl", ("--cluster", nodes.address))):
        treestack("complete", "bundled:quickstart/blanks", "--output", file, *flags)
        capsys.readouterr()
        treestack("audit", generated / "test.jsonl.gz", "--no-leakage", "--json", *flags)
        outputs.append((file.read_bytes(), capsys.readouterr().out))
    assert outputs[0] == outputs[1] and '"contradicted": []' in outputs[0][1]


def starts(folder):
    """How often the runs of a folder were started."""
    return sum(path.read_text().count(" training, ") for path in folder.glob("*/train.log"))


def wait_for(condition, process):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline and (process.poll() is None or condition())
        time.sleep(0.1)


def command(*arguments):
    return subprocess.Popen([sys.executable, "-m", "dgl_treestack", *map(str, arguments)], stderr=subprocess.DEVNULL)


def test_a_node_is_killed_twice(nodes, grid):
    folder = grid / "killed"
    process = command("sweep", grid / "sweep.toml", "--output-dir", folder, "--cluster", nodes.address)
    for done in (3, 7):
        wait_for(lambda done=done: len([*folder.glob("*/DONE")]) >= done, process)
        nodes.remove_node(nodes.worker_nodes.copy().pop(), allow_graceful=False)
        nodes.add_node(num_cpus=1)
    assert process.wait(timeout=300) == 0 and contents(folder) == contents(grid / "one")
    assert starts(folder) <= 12 + 2  # a node has one task in hand


def kill_and_start_again(arguments, condition):
    process = command(*arguments)
    wait_for(condition, process)
    process.kill()
    process.wait()
    treestack(*arguments)


def test_the_command_is_killed_and_started_again(nodes, grid, generated, tmp_path):
    folder = grid / "again"
    arguments = ("sweep", grid / "sweep.toml", "--output-dir", folder, "--cluster", nodes.address)
    kill_and_start_again(arguments, lambda: len([*folder.glob("*/DONE")]) >= 4)
    assert contents(folder) == contents(grid / "one")
    assert starts(folder) <= 12 + 3  # the cluster had three tasks in hand
    options = ("--seed", 3, "--equations", 400, "--output-dir", tmp_path / "data", "--cluster", nodes.address)
    arguments = ("generate", "quickstart", *options)
    kill_and_start_again(arguments, lambda: len([*tmp_path.glob("data/parts/*.gz")]) >= 2)
    assert contents(tmp_path / "data") == contents(generated)


@pytest.mark.parametrize("is_shared", [True, False])
def test_runs(nodes, tmp_path, monkeypatch, is_shared):
    (tmp_path / "run.toml").write_text(configuration.dump(small_config(tmp_path)))
    if not is_shared:
        monkeypatch.setattr(cluster, "marked", not_shared)
    for flags in ((tmp_path / "here",), (tmp_path / "there", "--cluster", nodes.address)):
        treestack("train", tmp_path / "run.toml", "--seeds", 0, 1, "--quiet", "--output-dir", *flags)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert json.loads((tmp_path / "there" / "small-1" / "environment.json").read_text())["seed"] == 1


@contextmanager
def not_shared(folder):
    """In place of `marked`: a file that no machine finds, as if none shared the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    yield "not here"


def test_errors_come_back(nodes, tmp_path, caplog):
    (tmp_path / "a.jsonl").write_text('{"text": "x = x"}\n{}\n')
    with RayPool(Cluster(nodes.address)) as pool, pytest.raises(DataError, match=r"a\.jsonl:2: Exactly one of the keys"):
        pool.submit(formats.read_examples, [str(tmp_path / "a.jsonl")]).result()
    command = Command(("train", "no/such/config"), tmp_path)
    assert cluster.run_commands([command], Cluster(nodes.address)) == 2 and "no/such/config" in caplog.text


def test_without_a_cluster():
    with pytest.raises(ConfigurationError, match=r"no Ray cluster at '127\.0\.0\.1:1'"), RayPool(Cluster("127.0.0.1:1")):
        pass
