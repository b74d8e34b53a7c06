from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.expression import Equation
from dgl_treestack.generate.folds import canonical_key, key_of
from dgl_treestack.generate.nodes import Pool

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
def test_nodes_have_the_keys_of_their_equations(left, right):
    equation, pool = Equation.parse(f"{left} = {right}"), Pool()
    sides = pool.tree(equation).children
    assert key_of(*sides) == canonical_key(equation) == key_of(*sides)
    assert key_of(sides[0]) == canonical_key(equation.left)


@given(TREES, TREES)
def test_a_key_does_not_see_order_padding_and_names(left, right):
    swapped = f"({right})*1 + 0 = ({left})**1".replace("x", "t").replace("y", "x").replace("t", "y")
    assert canonical_key(Equation.parse(f"{left} = {right}")) == canonical_key(Equation.parse(swapped))
