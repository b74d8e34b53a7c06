"""What is true of every preset: the same bytes however it is made, nothing twice, no option that means nothing, right labels.

14,000 labels stand before an independent checker: mpmath, its own evaluator, points of its own. The numbers of equations
checked and of wrong labels found are printed at the end of the test run.
"""

import dataclasses
from collections import Counter

import pytest
from each_case import assert_raises, cases
from independent_checker import complaints
from small_runs import contents

from dgl_treestack.data.formats import read
from dgl_treestack.errors import ConfigurationError
from dgl_treestack.expression.operators import MATH
from dgl_treestack.generate import presets
from dgl_treestack.generate.folds import canonical_key, in_partition
from dgl_treestack.generate.production import produce
from dgl_treestack.resources import find_data

NAMES = ["completion", "completion-deep", "deep", "listops", "logic", "numeric", "paper", "paper-deeper", "paper-labels"]
NAMES += ["quickstart", "text"]
OPTIONS = {"equations", "train_size", "max_depth", "no_cuts", "far_lists"}
PARTITIONS = {"paper": "paper", "paper-deeper": "paper", "deep": "deep", "completion": "deep", "completion-deep": "deep"}
LESS = {"quickstart": 160, "numeric": 200, "text": 8000, "logic": 300}
LESS |= {"paper-deeper": 30, "paper-labels": 60, "deep": 60}
ALL_CANDIDATES = ("completion", "completion-deep")  # whose time does not depend on the number of equations
QUICK = ("quickstart", "text", "logic")
MARKED = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]


def test_presets_are_found_by_listing_the_folder():
    assert list(presets.names()) == NAMES
    for name in NAMES:
        preset = presets.find(name)
        assert preset.summary and preset.seed > 0 and preset.accepts <= OPTIONS
    assert_raises(ConfigurationError, "quickstart", presets.find, "quickstrat")


@pytest.mark.parametrize("name", MARKED)
def test_the_same_bytes_with_two_jobs_and_others_with_another_seed(name, tmp_path, made):
    options, folders = presets.SetOptions(3, equations=LESS.get(name, 120)), [tmp_path / key for key in ("one", "two", "other")]
    if name in ALL_CANDIDATES:
        options, folders[0] = presets.SetOptions(**made(name).manifest["options"]), made(name).folder
    else:
        produce(name, options, folders[0])
    produce(name, options, folders[1], jobs=2)
    produce(name, dataclasses.replace(options, seed=options.seed + 1), folders[2])
    first, again, other = map(contents, folders)
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


def check(name, examples, least, record_property, *, has_marks=True):
    """has_marks: whether certificates say which equations have a value on a branch cut, where rounding may choose a side.

    Those that have none are judged with noise too, every eighteenth of them, for time.
    """
    wrong = complaints(examples)
    if has_marks:
        not_on_cut = [example for example in examples if not example.certificate.get("cut")][::18]
        wrong_with_noise = complaints(not_on_cut, snap=False)
        record_property("note", f"{name}: {len(not_on_cut)} not on a cut, judged with noise, {len(wrong_with_noise)} wrong")
        assert wrong_with_noise == []
    depths = Counter(example.equation.depth for example in examples)
    record_property("note", f"{name}: {len(examples)} labels checked, {len(wrong)} wrong, depths {min(depths)}-{max(depths)}")
    assert wrong == [] and len(examples) >= least
    return depths


@pytest.mark.slow
@cases(("paper", 850, range(3, 14)), ("deep", 200, range(3, 20)), ("completion", 50, range(8, 14)))  # `numeric` has its own
def test_no_label_is_wrong(made, record_property, preset, least, expected):
    depths = check(preset, made(preset).examples, least, record_property, has_marks=preset != "completion")
    assert set(expected) <= set(depths)


@pytest.mark.slow
@cases(("train", 7_400), ("validation", 1_600), ("test", 4_400))
def test_no_bundled_label_is_wrong(record_property, fold, least):
    check(f"quickstart, bundled, {fold}", list(read(find_data(f"bundled:quickstart/{fold}"))), least, record_property)
