"""Expressions: operators and signatures, leaves, the tree, and its notations: infix, prefix, SymPy, NetworkX."""

from dgl_treestack.expression.operators import LEAF_CLASSES as LEAF_CLASSES
from dgl_treestack.expression.operators import leaf_value as leaf_value
from dgl_treestack.expression.operators import number_value as number_value
from dgl_treestack.expression.tree import Equation as Equation
from dgl_treestack.expression.tree import Expression as Expression
