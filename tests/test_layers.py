"""The direction of flow: a module imports only from rooms that stand before its own, heavy libraries only in their homes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from each_case import assert_each

import dgl_treestack

ROOT = Path(dgl_treestack.__file__).parent
ROOMS = [
    "errors",
    "settings",
    "plain_data",
    "_torch",
    "generators",
    "plugins",
    "gradients",
    "atomic",
    "cluster",
    "processes",
    "distributed",
    "resources",
    "expression",
    "_dgl",
    "data",
    "truth",
    "generate",
    "audit",
    "cells",
    "sequence",
    "encoders",
    "propagate",
    "tasks",
    "model",
    "runs",
    "results",
    "language",
    "algorithmic",
    "training",
    "completion",
    "plots",
    "inspection",
    "experiments",
    "cli",
    "__main__",
]
LEVEL = {name: level for level, name in enumerate(ROOMS)}
HOMES = {
    "dgl": ["_dgl.py"],
    "sympy": ["expression/tree.py", "expression/sympy.py", "generate/"],
    "networkx": ["expression/networkx.py", "inspection/"],
    "matplotlib": ["plots/", "inspection/"],
    "flint": ["truth/"],
    "polars": ["data/records.py", "results/", "experiments/", "plots/"],
    "sklearn": ["results/metrics.py", "audit/", "generate/balance.py", "plots/substitutivity.py"],
}


def modules():
    return sorted(ROOT.rglob("*.py"))


def named_modules():
    return [(str(path.relative_to(ROOT)), path) for path in modules()]


def imports(path):
    """Every module imported anywhere in a file, functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_module_has_a_room():
    assert {room(path) for path in modules()} - {"__init__"} == set(LEVEL)


def test_imports_point_downwards():
    assert_each(assert_imports_point_downwards, named_modules())


def assert_imports_point_downwards(path):
    own = room(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "dgl_treestack" or len(parts) < 2 or parts[1] == "__version__" or own == "__init__":
            continue
        assert LEVEL[parts[1]] <= LEVEL[own], f"{own} imports {name}, which stands after it"


def test_libraries_stay_in_their_homes():
    assert_each(assert_libraries_stay_at_home, named_modules())


def assert_libraries_stay_at_home(path):
    where = str(path.relative_to(ROOT))
    for name in imports(path):
        home = HOMES.get(name.split(".")[0])
        assert home is None or any(where.startswith(part) for part in home), f"{where} imports {name}"


def test_nothing_dangerous():
    for path in modules():
        tree = ast.parse(path.read_text())
        called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"eval", "exec", "sympify", "compile"}, path
        assert not attributes & {"sympify", "parse_expr", "loads_pickle"}, path
        if "torch.load" in path.read_text():
            assert path.name == "import_authors.py"
            assert "weights_only=True" in path.read_text()
        assert path.name == "import_authors.py" or "pickle" not in set(imports(path)), path


def loaded(code):
    """Names of the heavy libraries that a fresh interpreter has loaded after some code."""
    heavy = ("torch", "dgl", "sympy", "matplotlib", "sklearn", "polars")
    script = f"import sys\n{code}\nprint(*[name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split("\n")[-2].split())


HELP = "from dgl_treestack.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import dgl_treestack", set()),
        (HELP, set()),
        ("import dgl_treestack.expression, dgl_treestack.data.formats, dgl_treestack.data.vocabulary", set()),
        ("import dgl_treestack.plots.depth, dgl_treestack.plots", {"matplotlib", "polars"}),
        ("import dgl_treestack.data.records, dgl_treestack.results.report", {"polars"}),
        ("import dgl_treestack.runs.run", set()),
        ("import dgl_treestack.cells.memory.stack, dgl_treestack.cells\ndgl_treestack.cells.models()", {"torch"}),
        ("import dgl_treestack.generate.presets.quickstart", {"sklearn"}),
        ("import dgl_treestack.audit.report", {"sklearn"}),
        ("import dgl_treestack.data.graph", {"torch", "dgl"}),
    ],
)
def test_what_gets_loaded(code, allowed):
    assert loaded(code) - allowed == set()


def test_only_one_module_imports_dgl():
    assert [path.name for path in modules() if any(n.split(".")[0] == "dgl" for n in imports(path))] == ["_dgl.py"]


def test_only_commands_print():
    """And `describe`, which is for people at a prompt."""
    for path in modules():
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        prints = any(isinstance(function, ast.Name) and function.id == "print" for function in calls)
        assert not prints or path.parent.name == "cli" or path == ROOT / "inspection" / "table.py", path
