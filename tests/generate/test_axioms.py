import random
from collections import Counter

import pytest
from each_case import assert_each

from dgl_treestack.errors import DataError
from dgl_treestack.expression import Equation
from dgl_treestack.generate.grow import FUNCTIONS
from dgl_treestack.generate.rewrite import FALSE_RULES as FALSE_TABLE
from dgl_treestack.generate.rewrite import load_axioms
from dgl_treestack.truth import judge
from tests.independent_checker import CONTEXT, NAMES, gaps

AXIOMS, FALSE_RULES = load_axioms(), load_axioms(FALSE_TABLE)


def many_points(count: int = 80) -> list[dict]:
    """Points of this test's own: a quarter real of either sign, the rest complex, some beyond the principal strip."""
    source = random.Random(7)
    points = []
    for i in range(count):
        reach = 1.2 if i % 2 else 3.5
        imaginary = 0.0 if i % 4 == 0 else 1.0
        values = [complex(source.uniform(-reach, reach), imaginary * source.uniform(-1.4, 1.4)) for _ in NAMES]
        points.append(dict(zip(NAMES, map(CONTEXT.mpmathify, values), strict=True)))
    return points


POINTS = many_points()


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


def test_no_axiom_depends_on_the_branch_or_is_also_false():
    conditional = ["asin(sin(x)) = x", "sqrt(x*x) = x", "sin(x) = sqrt(1 - cos(x)**2)", "sinh(acosh(x)) = sqrt(x**2 - 1)"]
    texts = {str(axiom.equation) for axiom in AXIOMS}
    assert not texts & {str(Equation.parse(text)) for text in conditional}
    assert not texts & {str(rule.equation) for rule in FALSE_RULES}


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
