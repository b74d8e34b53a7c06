"""What is true of every preset: the same bytes however it is made, nothing twice, no option that means nothing."""

import pytest

from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate import presets
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.production import produce

NAMES = ["completion", "completion-deep", "deep", "listops", "logic", "numeric", "paper", "paper-deeper", "paper-labels"]
NAMES += ["quickstart", "text"]
OPTIONS = {"equations", "train_size", "max_depth", "no_cuts"}
PARTITIONS = {"paper": "paper", "paper-deeper": "paper", "deep": "deep", "completion": "deep", "completion-deep": "deep"}
LESS = {"quickstart": 160, "numeric": 200, "text": 8000, "logic": 300, "completion": 36, "completion-deep": 12}
QUICK = ("quickstart", "text", "logic")
MARKED = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]


def test_presets_are_found_by_listing_the_folder():
    assert list(presets.names()) == NAMES
    for name in NAMES:
        preset = presets.find(name)
        assert preset.summary and preset.seed > 0 and preset.accepts <= OPTIONS
    with pytest.raises(ConfigurationError, match="quickstart"):
        presets.find("quickstrat")


@pytest.mark.parametrize("name", MARKED)
def test_the_same_bytes_with_two_jobs_and_others_with_another_seed(name, tmp_path):
    for folder, seed, jobs in (("one", 3, 1), ("two", 3, 2), ("other", 4, 1)):
        produce(name, presets.SetOptions(seed, equations=LESS.get(name, 120)), tmp_path / folder, jobs)
    first, again, other = (
        {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir() if path.is_file()}
        for folder in ("one", "two", "other")
    )
    assert first == again
    made = [file for file in first if file.endswith((".gz", ".txt")) and file != "candidates.jsonl.gz"]
    assert made and all(first[file] != other[file] for file in made)


@pytest.mark.parametrize("name", [param for param in MARKED if param.values != ("text",)])
def test_no_equation_and_no_id_is_there_twice_in_any_fold(name, made):
    examples = made(name).examples
    keys = [canonical_key(e.equation) if e.equation.signature is MATH else str(e.equation) for e in examples]
    assert len(examples) == len(set(keys)) == len({example.id for example in examples}) > 10
    assert all(in_partition(key, PARTITIONS[name]) for key in keys if name in PARTITIONS)
    for file, of_file in made(name).files.items():
        assert {example.fold for example in of_file} == {"test" if "blanks" in file or "cand" in file else file}


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_means_nothing_is_an_error(name, tmp_path):
    for option in sorted(OPTIONS - presets.find(name).accepts):
        with pytest.raises(ConfigurationError, match=f"no option '{option}'"):
            produce(name, presets.SetOptions(4, **{option: 3}), tmp_path / "new")
    assert not (tmp_path / "new").exists()
