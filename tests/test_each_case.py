import pytest
from each_case import assert_each


def test_all_failures_are_listed_whatever_they_are():
    def check(divisor, quotient):
        if quotient is None:
            with pytest.raises(ZeroDivisionError):
                6 / divisor
        else:
            assert 6 / divisor == quotient

    assert_each(check, [("good", 2, 3), ("raised", 0, None)])
    cases = [("wrong", 2, 4), ("good", 2, 3), ("by zero", 0, 1), ("not raised", 3, None)]
    with pytest.raises(AssertionError) as caught:
        assert_each(check, cases)
    first, *lines = str(caught.value).split("\n")
    assert first == "3 of 4 cases fail:"
    for start in (
        "wrong: AssertionError: ",
        "by zero: ZeroDivisionError: division by zero",
        "not raised: Failed: DID NOT RAISE",
    ):
        assert sum(line.startswith(start) for line in lines) == 1, start
    with pytest.raises(AssertionError, match="there are no cases"):
        assert_each(check, [])
