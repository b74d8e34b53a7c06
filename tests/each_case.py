"""Many cases: as rows of a test, and as one test, in which all are tried, and those that fail are listed by name."""

import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def assert_each(check: Callable[..., None], cases: Iterable[tuple]) -> None:
    """Call `check(*arguments)` for every case (name, *arguments).

    Whatever a call raises, an assertion or anything else, is a failure of that case and ends no other. No cases are a failure.
    """
    names, failures = [], []
    for name, *arguments in cases:
        names.append(name)
        try:
            check(*arguments)
        except (Exception, pytest.fail.Exception) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{name}: {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})")
    assert names, "there are no cases"
    assert not failures, f"{len(failures)} of {len(names)} cases fail:\n" + "\n".join(failures)


def assert_raises(kind: type[Exception], message: str, call: Callable, *arguments: object, **options: object) -> None:
    """A call raises an error of a kind, in whose text a pattern is found."""
    with pytest.raises(kind, match=message):
        call(*arguments, **options)


def cases(*rows: object) -> Callable[[Callable], Callable]:
    """Parametrize a test with rows of its last arguments."""

    def parametrized(test: Callable) -> Callable:
        first = getattr(rows[0], "values", rows[0])  # of `pytest.param`
        names = list(inspect.signature(test).parameters)[-len(first) if isinstance(first, tuple) else -1 :]
        return pytest.mark.parametrize(",".join(names), rows)(test)

    return parametrized
