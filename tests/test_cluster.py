"""Tasks on a Ray cluster of two raylets on this machine give the bytes that local processes give."""

import json
import sys

import pytest
from small_runs import small_config

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dgl-treestack[cluster]'")

from dgl_treestack import cluster  # noqa: E402
from dgl_treestack.cli import main  # noqa: E402
from dgl_treestack.cluster import Cluster, Command  # noqa: E402
from dgl_treestack.data import formats  # noqa: E402
from dgl_treestack.errors import ConfigurationError, DataError  # noqa: E402
from dgl_treestack.generate.presets import Options  # noqa: E402
from dgl_treestack.generate.production import produce  # noqa: E402
from dgl_treestack.runs import configuration  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


@pytest.fixture(scope="module")
def address():
    from ray.cluster_utils import Cluster as Raylets

    raylets = Raylets(initialize_head=True, head_node_args={"num_cpus": 1})
    raylets.add_node(num_cpus=1)
    yield raylets.address
    raylets.shutdown()


def contents(folder):
    ignored = {"environment.json", "times.jsonl", "train.log"}  # which name the machine, the command and the time
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ignored]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_generation(address, tmp_path):
    produce("quickstart", Options(seed=3, equations=160), tmp_path / "here")
    produce("quickstart", Options(seed=3, equations=160), tmp_path / "there", Cluster(address))
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.parametrize("is_shared", [True, False])
def test_runs(address, tmp_path, monkeypatch, is_shared):
    file = tmp_path / "run.toml"
    file.write_text(configuration.dump(small_config(tmp_path)))
    arguments = ["train", str(file), "--seeds", "0", "1", "--quiet"]
    if not is_shared:
        monkeypatch.setattr(cluster, "marked", lambda folder: NotShared(folder))
    for flags in (["--output-dir", str(tmp_path / "here")], ["--output-dir", str(tmp_path / "there"), "--cluster", address]):
        with pytest.raises(SystemExit) as exit:
            main([*arguments, *flags])
        assert not exit.value.code
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert json.loads((tmp_path / "there" / "small-1" / "environment.json").read_text())["seed"] == 1


class NotShared:
    """In place of `marked`: a file that no machine finds, as if none shared the folder."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return ".not-here"

    def __exit__(self, *_):
        pass


def test_errors_come_back(address, tmp_path, caplog):
    (tmp_path / "a.jsonl").write_text('{"text": "x = x"}\n{}\n')
    with Cluster(address).open() as pool, pytest.raises(DataError, match=r"a\.jsonl:2: Exactly one of the keys"):
        pool.submit(formats.read_examples, [str(tmp_path / "a.jsonl")]).result()
    command = Command(("train", "no/such/config"), tmp_path)
    assert cluster.run_commands([command], Cluster(address)) == 2 and "no/such/config" in caplog.text


def test_without_ray_or_a_cluster(monkeypatch):
    with pytest.raises(ConfigurationError, match=r"There is no Ray cluster at '127\.0\.0\.1:1'"), Cluster("127.0.0.1:1").open():
        pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dgl-treestack\[cluster\]'"), Cluster("auto").open():
        pass
