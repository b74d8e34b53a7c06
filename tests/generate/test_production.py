"""Making presets: the same bytes however the work is cut, stopped or resumed, and nothing lost when something breaks."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from each_case import assert_raises, cases
from small_runs import contents

from dgl_treestack.data import formats
from dgl_treestack.errors import ConfigurationError, DataError, OutputError
from dgl_treestack.generate import production
from dgl_treestack.generate.presets import Parts, SetOptions
from dgl_treestack.generate.production import MANIFEST, produce

OPTIONS = SetOptions(seed=3, equations=160)
NAME = "quickstart"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    produce(NAME, OPTIONS, folder)
    return folder


def test_two_processes_in_one_folder_make_it_once(finished, tmp_path, monkeypatch):
    made, make = [], production.make_shard

    def noted(name, options, shard):
        made.append(shard.name)
        time.sleep(0.05)
        return make(name, options, shard)

    monkeypatch.setattr(production, "make_shard", noted)
    threads = [threading.Thread(target=produce, args=(NAME, OPTIONS, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(set(made)) and contents(tmp_path) == contents(finished)


def test_without_a_terminal_lines_tell_the_progress(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(production, "INTERVAL", 0.0)
    with caplog.at_level("INFO"):
        produce(NAME, OPTIONS, tmp_path)
    lines = [message for message in caplog.messages if message.startswith(f"{NAME}: 1 of ")]
    assert lines and re.fullmatch(rf"{NAME}: 1 of \d+ shards, \d+\.\d a minute, about [\d:]+ left", lines[0])


def test_settings_files_and_their_manifest_are_left_and_not_made_again(finished, monkeypatch):
    assert sorted(contents(finished)) == [MANIFEST, "settings.json", "test.jsonl.gz", "train.jsonl.gz", "validation.jsonl.gz"]
    assert not [path for path in finished.iterdir() if path.is_dir()]
    manifest = json.loads((finished / MANIFEST).read_text())
    assert manifest["preset"] == NAME and manifest["options"] == OPTIONS.to_dict()
    for name, content in manifest["files"].items():
        counts = Counter((str(e.equation.depth), str(e.label)) for e in formats.read(finished / name))
        by_depth = content["by depth and label"].items()
        assert counts == {(depth, label): count for depth, by_label in by_depth for label, count in by_label.items()}
        assert content["equations"] == counts.total()
    monkeypatch.setattr(production, "_make", None)
    assert produce(NAME, OPTIONS, finished) == manifest


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"{}"])
def test_a_folder_of_other_or_damaged_settings_is_left_alone(content, finished, tmp_path):
    if content:
        (tmp_path / "settings.json").write_bytes(content)
    folder = tmp_path if content else finished
    before = contents(folder)
    assert_raises(ConfigurationError, "other settings", produce, NAME, SetOptions(seed=4, equations=160), folder)
    assert contents(folder) == before


def test_options_out_of_range_are_errors(tmp_path):
    for options, jobs, message in (
        (SetOptions(seed=-1), 1, "seed is -1"),
        (SetOptions(seed=0, equations=-5), 1, "equations is -5"),
        (SetOptions(seed=0, equations=10**9), 1, "from 0 to 10000000"),
        (SetOptions(seed=0), 0, "jobs is 0"),
    ):
        assert_raises(ConfigurationError, message, produce, NAME, options, tmp_path / "new", jobs)
    assert not (tmp_path / "new").exists()


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A folder of five parts, where there was no space for the sixth."""
    save, names = Parts.save, []

    def full(self, name, rows):
        names.append(name)
        if len(names) == 6:
            raise OutputError(f"{name} cannot be written: No space left on device. Choose another place.")
        return save(self, name, rows)

    with monkeypatch.context() as patch, pytest.raises(OutputError, match=r"No space left.* 5 finished shards are kept"):
        patch.setattr(Parts, "save", full)
        produce(NAME, OPTIONS, tmp_path)
    assert len(list((tmp_path / "parts").glob("*.gz"))) == 5
    return tmp_path


@cases(None, lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"no gzip")
def test_parts_are_kept_and_a_damaged_one_is_named_and_made_again_when_it_is_gone(finished, stopped, damage):
    part = sorted((stopped / "parts").glob("*.gz"))[3]
    if damage:
        part.write_bytes(damage(part.read_bytes()))
        assert_raises(DataError, f"{part.name}: This part is damaged. Delete it", produce, NAME, OPTIONS, stopped)
        part.unlink()
    produce(NAME, OPTIONS, stopped)
    assert contents(stopped) == contents(finished)


def test_what_others_left_in_the_folder_stays_and_a_file_that_is_gone_is_named(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / ".notes.tmp").write_text("notes")
    produce("numeric", SetOptions(seed=1, equations=200), tmp_path)
    assert (tmp_path / "notes" / ".notes.tmp").read_text() == "notes"
    (tmp_path / "test.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"test\.jsonl\.gz: The manifest names this file"):
        produce("numeric", SetOptions(seed=1, equations=200), tmp_path)


def start(folder, jobs, equations=160):
    command = [sys.executable, "-m", "dgl_treestack", "generate", NAME, "--output-dir", str(folder), "--seed", "3"]
    command += ["--equations", str(equations), "--jobs", str(jobs)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    # A shell that runs tests in the background ignores SIGINT, and what it starts does, too.
    return subprocess.Popen(command, **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_stopped_by_a_signal_it_goes_on_to_the_same_bytes(number, jobs, finished, tmp_path):
    """Killed at any moment: tests/test_fuzz.py."""
    process = start(tmp_path, jobs)
    while process.poll() is None and len(list(tmp_path.glob("parts/*.gz"))) < 2:
        time.sleep(0.01)
    process.send_signal(number)
    # by its code, or by the signal itself, as Python ends after Ctrl-C inside exec(text): 128 + number for a shell
    assert "Stopped" in process.communicate()[1] and process.returncode in (128 + number, -number)
    last = start(tmp_path, jobs)
    assert "error" not in last.communicate()[1] and last.returncode == 0 and contents(tmp_path) == contents(finished)


def workers(process):
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)]
    children = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in children.splitlines() if "spawn_main" in line]


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_shard_and_is_named(tmp_path):
    folder, parts = tmp_path / "killed", tmp_path / "killed" / "parts"
    process = start(folder, 2, equations=500)
    while process.poll() is None and not (list(parts.glob("*.gz")) and (pids := workers(process))):
        time.sleep(0.002)
    os.kill(pids[0], signal.SIGKILL)
    message = process.communicate()[1]
    assert process.returncode == 2 and "worker process died" in message and "Run the same command again" in message
    assert list(parts.glob("*.gz"))
    last = start(folder, 2, equations=500)
    assert "error" not in last.communicate()[1] and last.returncode == 0
    produce(NAME, SetOptions(seed=3, equations=500), tmp_path / "whole")
    assert contents(folder) == contents(tmp_path / "whole")
