"""A short campaign of every kind, and the runner: counts, resuming, what is unexpected."""

import itertools
import json
import sys

import pytest

from fuzz import __main__ as fuzz
from fuzz import kills
from fuzz.campaigns import CAMPAIGNS


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_damaged_input_ends_in_a_result_or_one_clear_error(name, tmp_path):
    count = fuzz.run(name, fuzz.Settings((name,), inputs=200, seed=11, folder=tmp_path))
    assert count.unexpected == [] and count.done == sum(count.outcomes.values()) > 0


def test_a_campaign_goes_on_and_counts_what_is_unexpected(tmp_path, monkeypatch):
    def attacks(scratch):
        def attack(source):
            if source.random() < 0.5:
                raise KeyError("a")
            return "accepted"

        return attack

    monkeypatch.setitem(fuzz.CAMPAIGNS, "broken", attacks)
    monkeypatch.setitem(fuzz.SHARES, attacks, 100)
    half = fuzz.run("broken", fuzz.Settings(inputs=150, folder=tmp_path))
    assert half.done == 150 and 40 < len(half.unexpected) < 110
    whole = fuzz.run("broken", fuzz.Settings(inputs=300, folder=tmp_path))
    assert whole.unexpected[: len(half.unexpected)] == [list(found) for found in half.unexpected]
    assert json.loads((tmp_path / "broken-0.json").read_text())["outcomes"]["unexpected"] == len(whole.unexpected)
    again = fuzz.run("broken", fuzz.Settings(inputs=300, folder=tmp_path / "other"))
    assert [number for number, _ in again.unexpected] == [number for number, _ in whole.unexpected]


@pytest.mark.slow
def test_commands_that_are_killed_leave_the_same_files(tmp_path, monkeypatch, capsys):
    report = tmp_path / "report.md"
    monkeypatch.setattr(sys, "argv", ["kills", "--kills", "6", "--seed", "3", "--report", str(report)])
    assert kills.main() == 0
    rows = [line.strip("| ").split(" | ") for line in report.read_text().splitlines()[2:-2]]
    assert [name for name, _, _ in rows] == ["train", "generate", "sweep", "complete"]
    assert sum(int(count) for _, _, count in rows) >= 6 and "Files that differ: 0." in report.read_text()


@pytest.mark.slow
def test_a_file_that_differs_after_kills_is_reported(monkeypatch, capsys):
    seeds = itertools.count()

    def command(folder):
        return ["generate", "listops", "--equations", "40", "--seed", str(next(seeds)), "--output-dir", str(folder)]

    monkeypatch.setattr(kills, "prepare", lambda scratch: {"generate": command})
    monkeypatch.setattr(sys, "argv", ["kills", "--kills", "1"])
    assert kills.main() == 1 and "generate 0: train.jsonl.gz" in capsys.readouterr().err
