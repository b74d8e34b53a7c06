import re
import tomllib

import pytest

from dgl_treestack import plain_data
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.experiments.runs import load_sweep
from dgl_treestack.resources import configs
from dgl_treestack.runs import configuration
from dgl_treestack.runs.configuration import RunConfig

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
        assert varied == {"model.hidden": config.model.hidden, "model.settings.stack_size": config.model.settings["stack_size"]}
    smaller = described(tmp_path, f'base = "{BASE}"\n[set]\n"schedule.epochs" = 2\n{grid.replace("[8, 16]", "[16]")}')
    assert {config.name for _, config in smaller.configs} < set(names), "the same in a smaller sweep"
    (of_table,) = described(tmp_path, f'base = "{BASE}"\n[grid]\n"model.settings" = [{{stack_size = 3}}]').configs
    assert of_table[1].model.settings == {"stack_size": 3}
    for _, config in sweep.configs:
        assert plain_data.build(RunConfig, tomllib.loads(configuration.dump(config))) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds = [0]", "The key 'base' names a configuration"),
        (f'base = "{BASE}"\nseed = [0]', "Unknown key of a sweep 'seed'"),
        (f'base = "{BASE}"\nseeds = []', r"'seeds' is \[\]; it lists whole numbers"),
        (f'base = "{BASE}"\nseeds = [1, 1]', "each given once; found 1, 1"),
        (f'base = "{BASE}"\ngrid = 3', "'grid' is 3; it is a table"),
        (f'base = "{BASE}"\nset = 3', "'set' is 3; it is a table"),
        (f'base = "{BASE}"\n[grid]\n"model.hidden" = 8', "'model.hidden' in the grid is 8; it lists values"),
        (f'base = "{BASE}"\n[grid]\n"model.hidden" = [8, 8]', "Two points of the grid are the same"),
        (f'base = "{BASE}"\n[grid]\n"model.hiden" = [8]', "Unknown key 'model.hiden'"),
        (f'base = "{BASE}"\n[grid]\n"model.dropout" = [2.0]', "'model.dropout' is 2.0"),
        ('base = "nowhere"', "Unknown configuration 'nowhere'"),
        ("base = ", "Invalid value"),
    ],
)
def test_what_is_no_sweep_is_one_error_that_names_the_file(tmp_path, text, message):
    with pytest.raises(ConfigurationError, match=f"sweep.toml: .*{message}"):
        described(tmp_path, text)


def test_the_sweeps_of_the_package_are_whole():
    assert len(configs("sweep")) >= 3
    loaded = {name: load_sweep(path) for name, path in configs("sweep").items()}
    sizes = {name: len(sweep.configs) * len(sweep.seeds) for name, sweep in loaded.items()}
    assert sizes["sweep/arabshahi-2020"] == 90 and sizes["sweep/stack_size"] == 21 and sizes["sweep/mali-2021"] == 330
