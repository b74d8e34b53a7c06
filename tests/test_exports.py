import re
from pathlib import Path

import pytest

import dgl_treestack


def test_public_names_are_the_declared_ones():
    assert sorted(dgl_treestack.__all__) == sorted(dgl_treestack._HOMES)
    for name in dgl_treestack.__all__:
        assert getattr(dgl_treestack, name) is not None
        assert name in dir(dgl_treestack)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="has no attribute 'Equations'"):
        dgl_treestack.Equations  # noqa: B018


def test_the_changelog_knows_this_version():
    changelog = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(dgl_treestack.__version__)}\]", changelog, re.MULTILINE)
