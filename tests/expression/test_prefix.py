import pytest

from dgl_treestack.errors import ExpressionError
from dgl_treestack.expression import Expression


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("Add Symbol:x Sinn:y", "Unknown operator", 14),
        ("sin/x Symbol:x", "not a number of operands", 1),
        ("Add Add/² One One", "not a number of operands", 5),
        ("Add/" + "9" * 5000, "'9{30}' is not a number of operands", 1),
        ("Add/٢ One One", "not a number of operands", 1),
        ("Add/0", "not a number of operands", 1),
        ("Add Symbol:1x One", "cannot name a variable", None),
        ("Add/3 One One One", "takes 2 operands", None),
        ("Add One", "1 operand", None),
        ("One One", "complete before node 1", None),
        ("", "1 operand", None),
    ],
)
def test_errors(text, message, column):
    with pytest.raises(ExpressionError, match=message) as caught:
        Expression.from_prefix(text)
    assert caught.value.column == column


def test_constants_need_no_text():
    assert Expression.from_prefix("Add Pi One").texts == (None, "pi", "1")
