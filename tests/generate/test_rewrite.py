from collections import Counter

import numpy as np
import pytest
from each_case import assert_raises, cases
from independent_checker import draw_points, gaps

from dgl_treestack import Expression, judge
from dgl_treestack.errors import DataError
from dgl_treestack.generate.grow import FUNCTIONS, Grower
from dgl_treestack.generate.nodes import Pool, find, to_expression
from dgl_treestack.generate.rewrite import FALSE_RULES as FALSE_TABLE
from dgl_treestack.generate.rewrite import RuleIndex, instantiate, load_axioms, match, replay, rule_index

AXIOMS, FALSE_RULES = load_axioms(), load_axioms(FALSE_TABLE)
RULES = list(rule_index().by_name.values())


def tree(pool: Pool, text: str):
    return pool.tree(Expression.parse(text))


def test_repeated_variables_bind_to_the_same_subtree():
    fits = {
        ("x*x", "sin(y)*sin(y)"): True,
        ("x*x", "sin(y)*sin(z)"): False,
        ("sin(x)**2 + cos(x)**2", "sin(y + 1)**2 + cos(y + 1)**2"): True,
        ("sin(x)**2 + cos(x)**2", "sin(y)**2 + cos(z)**2"): False,  # the unsound match of the papers' generator
        ("x*y + x*z", "2*u + 2*w"): True,
        ("x*y + x*z", "2*u + 3*w"): False,
        ("x + 0", "y + 1"): False,
    }
    assert {texts: match(*(tree(Pool(), text) for text in texts)) is not None for texts in fits} == fits


def test_replace_and_find_count_nodes_in_pre_order_and_a_variable_of_one_side_is_filled_once():
    pool = Pool()
    expression = Expression.parse("sin(x) + y*2**z")
    root, new = pool.tree(expression), pool.leaf("Pi", "pi")
    for i in range(expression.size):
        assert find(root, i) is pool.tree(expression.subtree(i))
        assert pool.replace(root, i, new) is pool.tree(expression.replace(i, Expression.leaf("Pi")))
    pool = Pool()
    fills = iter([pool.leaf("Symbol", "u"), pool.leaf("Symbol", "w")])
    assert instantiate(pool, tree(Pool(), "x - x"), {}, lambda: next(fills)) is tree(pool, "u - u")


def test_every_axiom_rewrites_in_both_directions_and_every_function_carries_signal():
    directions = {}
    for rule in RULES:
        directions.setdefault(rule.name[:-1], []).append(rule)
    for axiom in AXIOMS:
        commutes = str(axiom.equation) in ("x + y = y + x", "x*y = y*x")
        assert len(directions[axiom.name]) == (1 if commutes else 2)
    assert len({axiom.name for axiom in AXIOMS}) == len(AXIOMS) == len({axiom.equation for axiom in AXIOMS})
    carried = Counter(name for axiom in AXIOMS for name in set(axiom.equation.names))
    with_variables = Counter(name for axiom in AXIOMS if "Symbol" in axiom.equation.names for name in set(axiom.equation.names))
    assert min(carried[name] for name in FUNCTIONS) >= 4
    assert min(with_variables[name] for name in FUNCTIONS) >= 3


@pytest.mark.slow
def test_a_rule_turns_a_tree_into_one_of_equal_value():
    for rule in RULES:
        grower = Grower(np.random.default_rng(11))
        grower.variables = ("x", "y")
        pool, bindings = grower.pool, {}
        for _ in range(2):
            source = instantiate(pool, rule.source, bindings, grower.leaf)
            target = instantiate(pool, rule.target, match(rule.source, source), grower.leaf)
            verdict = judge(to_expression(pool.node("Equality", source, target))).verdict
            assert verdict in ("holds", "undefined"), rule.name


def test_what_fits_is_what_matching_every_rule_finds_and_an_expansion_fits_anything():
    grower = Grower(np.random.default_rng(2))
    for _ in range(40):
        for node in grower.start().root.children[0].walk():
            names = {rule.name for rule, _ in rule_index().matches(node)}
            assert names == {rule.name for rule in RULES if not rule.is_expansion and match(rule.source, node) is not None}
    pool, index = Pool(), RuleIndex(axiom for axiom in AXIOMS if axiom.name.startswith("circular:"))
    assert index.matches(tree(pool, "exp(x)")) == []
    for rule in rule_index().expansions:
        assert match(rule.target, instantiate(pool, rule.target, {}, lambda: pool.leaf("Pi", "pi")))


def test_the_depth_of_an_instance_is_known_before_it_is_made():
    pool, deep = Pool(), tree(Pool(), "sin(cos(x))")
    for rule in RULES:
        bindings = {node.label: pool.leaf("Symbol", "x") for node in rule.source.walk() if node.name == "Symbol"}
        assert set(rule.new) == {node.label for node in rule.target.walk() if node.name == "Symbol"} - set(bindings), rule.name
        bindings |= {label: pool.leaf("Pi", "pi") for label in rule.new}
        for label in bindings:
            for changed in (bindings, {**bindings, label: deep}):
                assert rule.depth_of(changed) == instantiate(pool, rule.target, {**changed}, pytest.fail).depth, rule.name


START = ["start", "same", "x = x"]
NO_STARTS = [["start", "same", "sin(x) = x"], ["start", "sum:2", "sin(x) = sin(x)"], ["start", "nothing:1", "x = x"], []]
NO_STARTS += [["both", "sin"], ["start", "same", 3], ["start"]]
NO_STEPS = [START, ["rewrite", "sum:2>", 0, 0], ["rewrite", "sum:2>", 0, 7], ["rewrite", "sum:2>", 5, 0], ["leap"], []]
NO_STEPS += [["combine", "Mul", "sum:2", "x = y", 0], ["both", "nope"], ["both", "Add"]]


@pytest.mark.parametrize("steps", [5, *([step] for step in NO_STARTS), *([START, step] for step in NO_STEPS)])
def test_a_step_that_cannot_be_taken_is_one_error(steps):
    assert_raises(DataError, "cannot be taken" if isinstance(steps, list) else "found int", list, replay(steps))


# beyond the principal strip too
POINTS = [{name: 1.5 * value for name, value in point.items()} for seed in range(14) for point in draw_points(seed)]


@pytest.mark.slow
def test_every_axiom_holds_at_fifty_points_and_more():
    for axiom in AXIOMS:
        relative_gaps = gaps(axiom.equation, POINTS)
        assert len(relative_gaps) >= (50 if "Symbol" in axiom.equation.names else 1), axiom.name
        assert max(relative_gaps) < 1e-20 and judge(axiom.equation).verdict == "holds", axiom.name


def test_every_false_rule_is_refuted():
    for rule in FALSE_RULES:
        relative_gaps = gaps(rule.equation, POINTS)
        assert len(relative_gaps) >= 50 and judge(rule.equation).verdict == "refuted", rule.name
        assert sum(gap > 1e-6 for gap in relative_gaps) > 0.75 * len(relative_gaps), rule.name


@cases(
    (None, None, "Cannot be read"),
    ("\udcff\udcfe[a]", None, "Cannot be read"),
    ("x = x\n", 1, "before the first"),
    ("# nothing\n[a]\n\nx = y = z\n", 4, "exactly one"),
    ("[a]\nx + 1\n", 2, "root of an equation"),
    ("[a]\nfoo(x) = 1\n", 2, "Unknown function"),
    ("[a\nx = x\n", 1, "not a section heading"),
    ("[a b]\nx = x\n", 1, "not a section heading"),
    ("[a]\nx = x\n[b]\nx = x\n", 4, "already on line 2"),
)
def test_a_broken_table_is_refused_with_its_line(tmp_path, content, line, message):
    path = tmp_path / "table.txt"
    if content:
        path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as caught:
        load_axioms(path)
    assert (caught.value.path, caught.value.line) == (path, line)
