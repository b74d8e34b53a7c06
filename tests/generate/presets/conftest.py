"""Every preset made small, once for all tests of the folder."""

from functools import cache

import pytest

from dgl_treestack.data import formats
from dgl_treestack.expression.language import find
from dgl_treestack.generate.presets import SetOptions, completion_deep
from dgl_treestack.generate.production import produce

OPTIONS = {"quickstart": (3, 160), "paper": (1, 900), "deep": (2, 240), "paper-deeper": (3, 60), "paper-labels": (4, 600)}
OPTIONS |= {"numeric": (4, 1600), "listops": (1, 2000), "logic": (1, 2000), "text": (1, 9000)}  # seed, equations
OPTIONS |= {"completion": (7, 72), "completion-deep": (3, 12)}
SIZES = {"BLANK_DEPTHS": (1, 5, 11), "VARIABLE_COUNTS": (1, 2), "CANDIDATES": 150, "NATURAL": 20}


@pytest.fixture(scope="session", autouse=True)
def small_sets_of_candidates():
    """`completion-deep` with fewer and smaller sets; workers are told of the sizes by their shards."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SIZES.items():
            patch.setattr(completion_deep, name, value)
        yield


class Made:
    """A preset in a folder: manifest, and the examples of its files by the name before the first dot."""

    def __init__(self, name, folder, **options):
        self.folder, (seed, equations) = folder, OPTIONS[name]
        self.manifest = produce(name, SetOptions(**{"seed": seed, "equations": equations, **options}), folder)
        language = find(name if name in ("listops", "logic") else "math")
        paths = [path for path in sorted(folder.glob("*.jsonl.gz")) if not path.name.startswith("binary")]
        self.files = {path.name.split(".")[0]: list(formats.read(path, language)) for path in paths}
        self.examples = [example for file, examples in self.files.items() if "cand" not in file for example in examples]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return cache(lambda name, **options: Made(name, tmp_path_factory.mktemp(name), **options))
