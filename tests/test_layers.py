"""The direction of flow: a module imports only from rooms that stand before its own, heavy libraries only in their homes."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from each_case import assert_each, assert_raises, cases

import dgl_treestack

ROOT = Path(dgl_treestack.__file__).parent
ROOMS = """
errors, plain_data, _torch, atomic, cluster, processes, distributed,
resources, expression, _dgl, data, truth, generate, audit, cells, sequence, propagate, tasks, model, runs,
results, language, algorithmic, training, completion, plots, inspection, experiments, cli, __main__
""".replace(",", " ").split()  # lowest first
LEVEL = {name: level for level, name in enumerate(ROOMS)}
HOMES = {
    "dgl": ["_dgl.py"],
    "sympy": ["expression/tree.py", "expression/sympy.py", "generate/"],
    "networkx": ["expression/networkx.py", "inspection/"],
    "matplotlib": ["plots/", "inspection/"],
    "flint": ["truth/"],
    "polars": ["data/records.py", "results/", "experiments/", "plots/"],
    "sklearn": ["results/metrics.py", "audit/", "generate/assembly.py", "plots/substitutivity.py"],
}


MODULES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def imports(path):
    """Every module imported anywhere in a file, functions included."""
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_module_has_a_room_imports_point_downwards_and_libraries_stay_in_their_homes():
    assert {room(path) for path in MODULES} - {"__init__"} == set(LEVEL)
    names = [(room(path), name.split(".")) for path in MODULES for name in imports(path) if room(path) != "__init__"]
    inner = [(of, parts[1]) for of, parts in names if parts[0] == "dgl_treestack" and parts[1:] not in ([], ["__version__"])]
    assert [f"{of} imports {name}, which stands after it" for of, name in inner if LEVEL[name] > LEVEL[of]] == []
    names = [(str(path.relative_to(ROOT)), name.split(".")[0]) for path in MODULES for name in imports(path)]
    assert [(where, name) for where, name in names if not where.startswith(tuple(HOMES.get(name, [""])))] == []


def calls(path):
    """The names of the functions that a file calls by their plain names."""
    return {node.func.id for node in ast.walk(MODULES[path]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_nothing_dangerous_and_only_commands_print():
    for path, tree in MODULES.items():
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not calls(path) & {"eval", "exec", "sympify", "compile"}, path
        assert not attributes & {"sympify", "parse_expr", "loads_pickle"}, path
        text = path.read_text()
        assert "torch.load" not in text or (path.name == "import_authors.py" and "weights_only=True" in text), path
        assert path.name == "import_authors.py" or "pickle" not in set(imports(path)), path
    # And `describe`, which is for people at a prompt
    for path in MODULES:
        assert "print" not in calls(path) or path.parent.name == "cli" or path == ROOT / "inspection" / "table.py", path


def loaded(code):
    """Names of the heavy libraries that a fresh interpreter has loaded after some code."""
    heavy = ("torch", "dgl", "sympy", "matplotlib", "sklearn", "polars")
    script = f"import sys\n{code}\nprint(*[name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split("\n")[-2].split())


HELP = "from dgl_treestack.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass"


@cases(
    (f"{HELP}\nimport dgl_treestack.expression, dgl_treestack.data.vocabulary, dgl_treestack.runs.run", set()),
    ("import dgl_treestack.plots.depth, dgl_treestack.plots", {"matplotlib", "polars"}),
    ("import dgl_treestack.data.records, dgl_treestack.results.report", {"polars"}),
    ("import dgl_treestack.cells.memory.stack, dgl_treestack.cells\ndgl_treestack.cells.models()", {"torch"}),
    ("import dgl_treestack.generate.presets.quickstart, dgl_treestack.audit.report", {"sklearn"}),
    ("import dgl_treestack.data.graph", {"torch", "dgl"}),
)
def test_what_gets_loaded(code, allowed):
    assert loaded(code) - allowed == set()


def test_public_names_are_the_declared_ones_and_the_changelog_knows_this_version():
    assert sorted(dgl_treestack.__all__) == sorted(dgl_treestack._HOMES)
    assert all(getattr(dgl_treestack, name) is not None and name in dir(dgl_treestack) for name in dgl_treestack.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Equations'"):
        dgl_treestack.Equations  # noqa: B018
    changelog = (ROOT.parent / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(dgl_treestack.__version__)}\]", changelog, re.MULTILINE)


def test_all_failures_of_a_test_of_many_cases_are_listed():
    """By `assert_each`, on which many tests rely."""

    def check(divisor, kind):
        with pytest.raises(kind):
            assert 6 / divisor == 3

    good = ("good", 0, ZeroDivisionError)
    with pytest.raises(AssertionError, match=r"^2 of 3 cases fail:\nby zero: ZeroDivisionError.*\nnot raised: Failed: DID NOT"):
        assert_each(check, [("by zero", 0, AssertionError), ("not raised", 2, AssertionError), good])
    assert_each(check, [good])
    assert_raises(AssertionError, "there are no cases", assert_each, check, [])
