"""Commands that end with their parent, and folders for one process at a time."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from dgl_treestack.cluster import CHILD_OF, Cluster, RayPool, exit_code
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.processes import locked

PARENT = f"""
import os, subprocess, sys
follow = "from dgl_treestack.processes import follow_parent; follow_parent()"
child = f"import time; {{follow}}; print('ready', flush=True); time.sleep(60)"
settings = {{**os.environ, {CHILD_OF!r}: str(os.getpid())}}
process = subprocess.Popen([sys.executable, "-c", child], env=settings)
print(process.pid, flush=True)
process.wait()
"""


def test_a_child_ends_when_its_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"
        os.kill(child, 0)  # it is there
        parent.send_signal(signal.SIGKILL)
        assert parent.stdout.read() == "", "the pipe ends with the last of the two"


def test_a_folder_is_for_one_process_at_a_time(tmp_path):
    order = []

    def second():
        with locked(tmp_path):
            order.append("second")

    with locked(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.2)
        order.append("first")
    other.join(timeout=120)
    assert order == ["first", "second"]


def test_without_ray_a_cluster_says_how_to_install_it_and_signals_are_exit_codes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dgl-treestack\[cluster\]'"), RayPool(Cluster("auto")):
        pass
    assert [exit_code(code) for code in (0, 2, -signal.SIGKILL, -signal.SIGTERM)] == [0, 2, 137, 143]
