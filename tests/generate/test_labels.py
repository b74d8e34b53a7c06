"""17,000 labels of all presets and depths before an independent checker: mpmath, its own evaluator, points of its own.

The numbers of equations checked and of wrong labels found are printed at the end of the test run.
"""

from collections import Counter

import pytest
from independent_checker import complaints

from dgl_treestack.data.formats import read
from dgl_treestack.generate.presets import SetOptions
from dgl_treestack.generate.production import produce
from dgl_treestack.resources import find_data

SETS = {  # options, at least so many equations, depths; `numeric` has labels of another kind and a checker of its own
    "paper": (SetOptions(seed=31, equations=2800), 2700, range(3, 14)),
    "deep": (SetOptions(seed=33, equations=800), 700, range(3, 20)),
    "completion": (SetOptions(seed=36, equations=200), 150, range(8, 14)),
}
BUNDLED = {"train": 7_400, "validation": 1_600, "test": 4_400}


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
@pytest.mark.parametrize("preset", SETS)
def test_no_label_is_wrong(preset, tmp_path, record_property):
    options, least, expected = SETS[preset]
    produce(preset, options, tmp_path)
    names = [path for path in sorted(tmp_path.glob("*.jsonl.gz")) if not path.name.startswith("candidates")]
    examples = [example for name in names for example in read(name)]
    depths = check(preset, examples, least, record_property, has_marks=preset != "completion")
    assert set(expected) <= set(depths)


@pytest.mark.slow
@pytest.mark.parametrize("fold", BUNDLED)
def test_no_bundled_label_is_wrong(fold, record_property):
    check(f"quickstart, bundled, {fold}", list(read(find_data(f"bundled:quickstart/{fold}"))), BUNDLED[fold], record_property)
