import pytest
from each_case import assert_raises, cases
from small_runs import small_config

from dgl_treestack import Vocabulary, plain_data
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.language import find
from dgl_treestack.resources import configs, find_config, find_data
from dgl_treestack.runs import configuration
from dgl_treestack.runs.run import build_model


def test_every_shipped_configuration_loads():
    assert {"quickstart/tree_rnn", "quickstart/tree_lstm", "quickstart/tree_smu"} <= set(configs())
    for name in configs():
        if name.startswith("language_model/"):
            with pytest.raises(ConfigurationError, match="describes a language model"):
                configuration.load(find_config(f"configs/{name}.toml"))
            continue  # tests/language loads them
        config = configuration.load(find_config(f"configs/{name}.toml"))
        for data in (*config.data.train, *config.data.validation, *config.data.test):
            assert not data.startswith("bundled:") or find_data(data).exists()
        if config.model.vocabulary == "train":
            build_model(config.model, Vocabulary.of_words("ab"), find(config.data.language))


def test_override_and_hash(tmp_path):
    config = small_config(tmp_path)
    changes = ["schedule.epochs=7", "model.settings.stack_size=9", "model.name=tree_lstm", "optimizer.learning_rate=1"]
    changed = plain_data.override(config, changes)
    assert (changed.schedule.epochs, changed.model.settings["stack_size"], changed.model.name) == (7, 9, "tree_lstm")
    assert changed.optimizer.learning_rate == 1.0
    assert changed.hash != config.hash
    # names of runs, also in committed records, have the hash of earlier versions
    config = configuration.RunConfig("x", configuration.ModelConfig("tree_rnn"))
    assert config.hash == "32f61be84c3c"
    assert plain_data.replaced(config, [("model.start", "tree_smu")]).hash != config.hash


MEANT = {"epochs": "schedule.epochs", "epoch": "schedule.epochs", "hidden": "model.hidden", "lr": "optimizer.learning_rate"}
MEANT |= {"learning_rate": "optimizer.learning_rate", "stack_size": "model.settings.stack_size", "train": "data.train"}


@cases(
    *((f"{key}=3", rf"Unknown key '{key}'\. Did you mean '{meant}'") for key, meant in MEANT.items()),
    ("zzz=3", r"Unknown key 'zzz'\. Known"),
    ("batchsize=3", "Did you mean 'batch_size'"),
    ("schedule.epochs=many", "expected int"),
    ("optimizer.gradients=zero", "Did you mean 'zeros'"),
    ("model.dropout=1", "below 1"),
    ("batch_size=0", "at least 1"),
    ("optimizer.learning_rate=nan", "at least 0"),
    ("name=../../escape", "names a folder"),
    ("model.settings.dropout=0.1", "no setting of a model's class"),
    ("model.settings.operators=3", "no setting of a model's class"),
    ("data.train=3", "expected"),
    ("model.head_settings.verification=3", "'model.head_settings.verification' is 3; expected dict"),
    ("model.class_weights.good=many", "'model.class_weights.good' is 'many'; expected float"),
    ("name.x=1", "no table"),
    ("batch_size", "not KEY=VALUE"),
    (("model.start=tree_smu", "model.vectors=words.txt"), "both give vectors of leaves"),
)
def test_wrong_values_are_one_error(tmp_path, assignment, message):
    with pytest.raises(ConfigurationError, match=message):
        configuration.override(small_config(tmp_path), [assignment] if isinstance(assignment, str) else assignment)


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "bad.toml"
    for text, message in (("name = ", ""), ('name = "x"', "'model' is missing"), ("nam = 1", "Did you mean 'name'")):
        path.write_text(text)
        assert_raises(ConfigurationError, f"{path}.*{message}", configuration.load, path)
    assert_raises(ConfigurationError, "cannot be read", configuration.load, tmp_path / "absent.toml")
