"""Ranks of what was blanked among candidates."""

from functools import lru_cache

from dgl_treestack.completion import questions
from dgl_treestack.completion.records import COMPLETION, fill
from dgl_treestack.data.records import Table
from dgl_treestack.experiments.extras._extra import Extra
from dgl_treestack.resources import find_data
from dgl_treestack.runs.run import Run

_questions = lru_cache(maxsize=1)(questions.read)  # large files take minutes to read


def _make(run: Run, data: str, engine: str) -> Table:
    return fill(run.load_model(), _questions(find_data(data)), engine=engine, quiet=False)


EXTRAS = {name: Extra(_make, name, COMPLETION) for name in ("blanks", "deep blanks")}
