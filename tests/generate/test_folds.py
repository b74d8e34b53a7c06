from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.expression import Equation, Expression
from dgl_treestack.generate.folds import canonical_key, fold_of, key_of
from dgl_treestack.generate.nodes import Pool

SAME = [("x + 1 = y", "u + 1 = w"), ("x + (y + z) = 2", "(z + x) + y = 2"), ("x*(y*z) = (x + y)*z", "(y + x)*z = z*y*x")]
SAME += [("x + one = half", "x + 1 = Rational(1/2)"), ("0.5*x = 1", "x*half = 1"), ("0 + 0 = x", "x = 0")]
SAME += [("(x + 0)**1 = one*(0 + sin(y)) + 0", "x = sin(y)"), ("(x + y)*1 + z = 1", "x + (y + z) = 1**1")]
SAME += [("(1*1)*(1*one) = x", "x = 1"), ("a + (b*c)**d = tan(f)", "g + (h*i)**j = tan(k)")]
DIFFERENT = [("x = y", "x = x"), ("x**y = 1", "x**x = 1"), ("x**2 = y", "2**x = y"), ("x + y*z = 1", "(x + y)*z = 1")]
DIFFERENT += [("sin(x) = cos(y)", "sin(x) = cos(x)"), ("x + 1 = 2", "x + 2 = 1"), ("log(x, y) = 1", "log(y, x) = x")]
DIFFERENT += [("x + pi = 1", "x + E = 1"), ("x + y + x = 1", "x + y + y + x = 1"), ("x*0 = x", "x = x")]


@pytest.mark.parametrize(("first", "second"), [*SAME, *DIFFERENT])
def test_the_same_equations_and_no_others_have_one_key(first, second):
    is_same = canonical_key(Equation.parse(first)) == canonical_key(Equation.parse(second))
    assert is_same == ((first, second) in SAME)


def test_a_key_never_changes():
    assert canonical_key(Equation.parse("sin(x)**2 + cos(x)**2 = 1")) == "b9ae8640d833b30f272d"


def test_a_key_of_a_deep_tree():
    depth = 20_000
    names = ("Equality", *["Add"] * depth, *["Symbol"] * (depth + 2))
    deep = Expression(names, (*[None] * (depth + 1), *["x"] * (depth + 2)), (*[2] * (depth + 1), *[0] * (depth + 2)))
    assert len(canonical_key(deep)) == 20


def test_families_fall_into_folds_by_their_shares():
    shares = {"train": 3.0, "test": 1.0}
    folds = Counter(fold_of(f"family {i}", shares) for i in range(4000))
    assert folds["train"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert fold_of("family 1", shares) == fold_of("family 1", {"train": 6.0, "test": 2.0})


LEAVES = ("x", "y", "z", "0", "1", "one", "2", "half", "pi")
TREES = st.recursive(
    st.sampled_from(LEAVES),
    lambda tree: st.one_of(
        st.builds("({}+{})".format, tree, tree),
        st.builds("({}*{})".format, tree, tree),
        st.builds("({})**({})".format, tree, tree),
        st.builds("sin({})".format, tree),
    ),
    max_leaves=12,
)


@given(TREES, TREES)
def test_nodes_have_the_keys_of_their_equations_whatever_order_padding_and_names(left, right):
    equation, pool = Equation.parse(f"{left} = {right}"), Pool()
    root = pool.tree(equation)
    assert key_of(root) == canonical_key(equation) == key_of(root)
    assert key_of(root.children[0]) == canonical_key(equation.left)
    swapped = f"({right})*1 + 0 = ({left})**1".replace("x", "t").replace("y", "x").replace("t", "y")
    assert canonical_key(equation) == canonical_key(Equation.parse(swapped))
