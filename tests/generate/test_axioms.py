from collections import Counter

import pytest
from each_case import assert_each

from dgl_treestack.errors import DataError
from dgl_treestack.generate.grow import FUNCTIONS
from dgl_treestack.generate.rewrite import FALSE_RULES as FALSE_TABLE
from dgl_treestack.generate.rewrite import load_axioms
from dgl_treestack.truth import judge
from tests.independent_checker import draw_points, gaps

AXIOMS, FALSE_RULES = load_axioms(), load_axioms(FALSE_TABLE)


# beyond the principal strip too
POINTS = [{name: 1.5 * value for name, value in point.items()} for seed in range(14) for point in draw_points(seed)]


@pytest.mark.slow
def test_every_axiom_holds_at_fifty_points_and_more():
    assert_each(assert_holds, [(axiom.name, axiom) for axiom in AXIOMS])


def assert_holds(axiom):
    relative_gaps = gaps(axiom.equation, POINTS)
    assert len(relative_gaps) >= (50 if "Symbol" in axiom.equation.names else 1)
    assert max(relative_gaps) < 1e-20
    assert judge(axiom.equation).verdict == "holds"


def test_every_false_rule_is_refuted():
    assert_each(assert_refuted, [(rule.name, rule) for rule in FALSE_RULES])


def assert_refuted(rule):
    relative_gaps = gaps(rule.equation, POINTS)
    assert len(relative_gaps) >= 50 and sum(gap > 1e-6 for gap in relative_gaps) > 0.75 * len(relative_gaps)
    assert judge(rule.equation).verdict == "refuted"


def test_every_function_carries_signal():
    carried = Counter(name for axiom in AXIOMS for name in set(axiom.equation.names))
    with_variables = Counter(name for axiom in AXIOMS if "Symbol" in axiom.equation.names for name in set(axiom.equation.names))
    assert min(carried[name] for name in FUNCTIONS) >= 4
    assert min(with_variables[name] for name in FUNCTIONS) >= 3


def test_names_are_unique():
    assert len({axiom.name for axiom in AXIOMS}) == len(AXIOMS) == len({axiom.equation for axiom in AXIOMS})


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (None, None, "Cannot be read"),
        ("\udcff\udcfe[a]", None, "Cannot be read"),
        ("x = x\n", 1, "before the first"),
        ("# nothing\n[a]\n\nx = y = z\n", 4, "exactly one"),
        ("[a]\nx + 1\n", 2, "root of an equation"),
        ("[a]\nfoo(x) = 1\n", 2, "Unknown function"),
        ("[a\nx = x\n", 1, "not a section heading"),
        ("[a b]\nx = x\n", 1, "not a section heading"),
        ("[a]\nx = x\n[b]\nx = x\n", 4, "already on line 2"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(tmp_path, content, line, message):
    path = tmp_path / "table.txt"
    if content:
        path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as caught:
        load_axioms(path)
    assert (caught.value.path, caught.value.line) == (path, line)
