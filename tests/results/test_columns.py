"""Records as columns: what comes out is what went in, and what cannot be a column stays as it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgl_treestack.results.columns import CHUNK, ColumnRecords, compact

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_characters="\0")),
)
kinds = st.sampled_from([st.booleans(), st.integers(-300, 300), st.floats(allow_nan=False), st.text("aé∀\0"), values])


@given(st.data(), st.lists(kinds, min_size=1, max_size=4), st.integers(1, 20))
def test_records_are_what_they_were(data, kind_of_column, count):
    names = [f"c{i}" for i in range(len(kind_of_column))]
    rows = [{name: data.draw(kind) for name, kind in zip(names, kind_of_column, strict=True)} for _ in range(count)]
    stored = compact(rows)
    assert isinstance(stored, ColumnRecords) and len(stored) == count
    for again in (list(stored), [stored[i] for i in range(count)], list(stored[:])):
        assert again == rows
        assert [[type(value) for value in row.values()] for row in again] == [
            [type(value) for value in row.values()] for row in rows
        ]
    assert stored[-1] == rows[-1] and list(stored[1:3]) == rows[1:3] and compact(stored) is stored
    with pytest.raises(IndexError):
        stored[count]


def test_half_of_a_surrogate_pair_is_kept():
    rows = [{"id": "\ud800"}, {"id": "a"}]
    assert list(compact(rows)) == rows


def test_many_records():
    rows = [{"id": f"e{i}", "depth": i % 19} for i in range(2 * CHUNK + 5)]
    stored = compact(rows)
    assert list(stored) == rows and stored.columns["depth"].dtype == np.uint8


@pytest.mark.parametrize("rows", [[], [{"a": 1}, {"b": 1}], [{"a": 1, "h": [0.5, 1.0]}]])
def test_others_stay_as_they_are(rows):
    assert compact(rows) is rows
