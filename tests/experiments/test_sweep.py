"""Grids of runs: what is read from a file, and a sweep that goes on."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from each_case import assert_raises, cases
from small_runs import contents, small_config

from dgl_treestack import plain_data
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.runs import load_sweep
from dgl_treestack.resources import configs
from dgl_treestack.runs import configuration

BASE = "configs/quickstart/tree_smu.toml"


def described(folder, text):
    (folder / "sweep.toml").write_text(text)
    return load_sweep(folder / "sweep.toml")


def test_every_combination_is_a_configuration_of_its_own(tmp_path):
    grid = '[grid]\n"model.hidden" = [8, 16]\n"model.settings.stack_size" = [1, 2, 3]\n'
    sweep = described(tmp_path, f'base = "{BASE}"\nseeds = [0, 7]\n[set]\n"schedule.epochs" = 2\n{grid}')
    assert len(sweep.configs) == 6 and sweep.seeds == (0, 7)
    names = [config.name for _, config in sweep.configs]
    assert len(set(names)) == 6 and all(re.fullmatch(r"quickstart-tree_smu-[0-9a-f]{12}", name) for name in names)
    for varied, config in sweep.configs:
        assert config.schedule.epochs == 2
        assert plain_data.build(configuration.RunConfig, tomllib.loads(configuration.dump(config))) == config
        assert varied == {"model.hidden": config.model.hidden, "model.settings.stack_size": config.model.settings["stack_size"]}
    smaller = described(tmp_path, f'base = "{BASE}"\n[set]\n"schedule.epochs" = 2\n{grid.replace("[8, 16]", "[16]")}')
    assert {config.name for _, config in smaller.configs} < set(names), "the same in a smaller sweep"
    ((_, config),) = described(tmp_path, f'base = "{BASE}"\n[grid]\n"model.settings" = [{{stack_size = 3}}]').configs
    assert config.model.settings == {"stack_size": 3}


@cases(
    ("seeds = [0]", "The key 'base' is missing"),
    (f'base = "{BASE}"\nseed = [0]', "Unknown key 'seed'"),
    (f'base = "{BASE}"\nseeds = []', "'seeds' is empty; it lists one value or more"),
    (f'base = "{BASE}"\nseeds = [0.5]', r"'seeds' is \[0.5\]; expected tuple"),
    (f'base = "{BASE}"\nseeds = [1, 1]', "each given once; found 1, 1"),
    (f'base = "{BASE}"\n[grid]\n"model.hidden" = 8', "'grid.model.hidden' is 8; expected list"),
    (f'base = "{BASE}"\n[grid]\n"model.hidden" = [8, 8]', "Two points of the grid are the same"),
    (f'base = "{BASE}"\n[grid]\n"model.hiden" = [8]', "Unknown key 'model.hiden'"),
    (f'base = "{BASE}"\n[grid]\n"model.dropout" = [2.0]', "'model.dropout' is 2.0"),
    ('base = "nowhere"', "Unknown configuration 'nowhere'"),
    ("base = ", "Invalid value"),
)
def test_what_is_no_sweep_is_one_error_that_names_the_file(tmp_path, text, message):
    assert_raises(ConfigurationError, f"sweep.toml: .*{message}", described, tmp_path, text)


def test_the_sweeps_of_the_package_are_whole():
    loaded = {name: load_sweep(path) for name, path in configs("sweep").items()}
    sizes = {name: len(sweep.configs) * len(sweep.seeds) for name, sweep in loaded.items()}
    assert sizes.items() >= {"sweep/arabshahi-2020": 90, "sweep/stack_size": 21, "sweep/mali-2021": 330}.items()


@pytest.mark.slow
def test_a_sweep_that_goes_on_ends_with_the_same_results_and_repeats_none(tmp_path, monkeypatch, treestack):
    """One that is killed: tests/test_fuzz.py."""
    monkeypatch.chdir(tmp_path)
    Path("base.toml").write_text(configuration.dump(small_config(tmp_path, schedule={"epochs": 1}, compile="off")))
    Path("sweep.toml").write_text('base = "base.toml"\nseeds = [0, 1]\n[grid]\n"model.hidden" = [2, 3]\nbatch_size = [4, 8]\n')
    rows = json.loads(treestack("sweep", "sweep.toml", "--json"))
    assert [(row["hidden"], row["batch_size"]) for row in rows] == [(2, 4), (2, 8), (3, 4), (3, 8)]
    assert all(row["seeds"] == [0, 1] for row in rows)
    whole, (first, second, *kept) = contents(Path("runs")), sorted(Path("runs").glob("small-*"))
    shutil.rmtree(first)
    (second / "DONE").unlink()
    assert set(treestack("sweep", "sweep.toml", "--dry-run").split()) == {first.name, second.name}
    before = [(run / "DONE").stat().st_mtime_ns for run in kept]
    assert json.loads(treestack("sweep", "sweep.toml", "--json")) == rows and contents(Path("runs")) == whole
    assert [(run / "DONE").stat().st_mtime_ns for run in kept] == before and len(kept) == 6
