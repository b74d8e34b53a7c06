"""Every command and every line of Python in the README and in docs/ is run, at a size that fits the suite.

The bash and Python blocks of a page are run in their order, in an empty folder of the page. Commands of `treestack` run in
this process, with the arguments of SMALL and SHORT. Python blocks without a command between them are one program.
The README is short besides. A comment before a block says what else becomes of it:

    <!-- test: skip REASON -->   the block is not run
    <!-- test: file NAME -->     the block is written to a file of this name
    <!-- test: authors -->       the block is run where the authors' files are at hand
"""

import ast
import itertools
import pydoc
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import programs
import pytest
from each_case import cases

from dgl_treestack import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()
COPIED = [*sorted((ROOT / "data").glob("[A-Za-z]*.md")), ROOT / "benchmarks" / "README.md"]  # pages of the site as they are
FEW = ["bundled:smoke/test"]
SMALL = {
    "generate": ["--equations", "120"],
    "audit": ["--no-verdicts", "--no-leakage"],  # test_bundled_data judges the labels and fits the baselines
    "sweep": ["--dry-run"],  # tests/experiments trains a smaller one
    "reproduce": ["--dry-run"],  # likewise
}
# Configurations of the package are trained with these values.
SHORT = ["schedule.epochs=1", "model.hidden=8", "data.max_depth=3"]
SHORT += [f"data.{kind}={FEW}" for kind in ("train", "validation", "test")]
# What a page leaves in its folder, and what its Python prints.
EXPECTED = {
    "README.md": ({"depth.svg", "depth.png"}, "torch.Size([23, 50]) torch.Size([23, 250])"),
    "docs/tutorial.md": ({"shallow.svg", "depth.svg", "table.md", "stack.png", "page.html"}, "epoch 3: training loss 0.4"),
    "docs/own-data.md": ({"more.jsonl", "logic.jsonl", "scores.jsonl"}, "torch.Size([4])"),
    "docs/own-trees.md": (
        {"answers.jsonl", "tree.svg", "confusion.svg", "film.html", "more.jsonl"},
        "torch.Size([3, 2]) tensor([0, 1, 0])",
    ),
    "docs/own-cell.md": (set(), "levels and topo differ by at most "),
    "docs/own-figure.md": ({"curves.png", "epochs.svg"}, "grad_fn"),
    "docs/commands.md": (
        {"audit.svg", "tree.png", "tree.graphml", "scores.jsonl", "ranks.jsonl", "page.html", "table.csv"},
        "",
    ),
}
BLOCK = re.compile(r"(?:<!-- test: (\w+) ?(.*?) -->\n\s*)?^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    mark: str
    argument: str
    language: str
    text: str


def blocks(page):
    return [Block(mark, argument, language, text) for mark, argument, _, language, text in BLOCK.findall(page.read_text())]


def is_run(block):
    return block.language in ("bash", "python") and block.mark not in ("skip", "authors")


def name(page):
    return str(page.relative_to(ROOT))


def call(command, treestack):
    """Run a command; return what it prints."""
    program, name, *arguments = command
    assert program == "treestack", command
    if name == "train" and arguments[0].startswith("configs/"):
        # --set stands last in a command, and of several values of a key the last one counts
        arguments += SHORT if "--set" in arguments else ["--set", *SHORT]
    if name in ("audit", "evaluate"):  # a file of 300 equations in place of thousands
        arguments = [argument.replace("bundled:quickstart/test", "bundled:smoke/validation") for argument in arguments]
    if "--jobs" in arguments:
        arguments[arguments.index("--jobs") + 1] = "1"  # test_processes starts several
    return treestack(name, *arguments, *SMALL.get(name, []))


def dry_run(*arguments):
    return subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


RUN = [page for page in PAGES if any(map(is_run, blocks(page)))]


@cases(*[pytest.param(page, id=name(page), marks=[] if page.name == "README.md" else pytest.mark.slow) for page in RUN])
def test_a_page(tmp_path, monkeypatch, treestack, page):
    monkeypatch.chdir(tmp_path)
    printed = ""
    for language, group in itertools.groupby(blocks(page), lambda block: block.language if is_run(block) else block.mark):
        if language == "python":
            Path("page.py").write_text("\n".join(block.text for block in group))
            result = programs.run(tmp_path / "page.py", [], tmp_path)
            assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
            printed += result.stdout
        elif language == "bash":
            for command in (shlex.split(line, comments=True) for block in group for line in block.text.splitlines()):
                if command[0] == "make":
                    dry_run(*command[1:])
                else:
                    call(command, treestack)
        elif language == "file":
            for block in group:
                Path(block.argument).write_text(block.text)
    files, text = EXPECTED.get(name(page), (set(), ""))
    assert files <= {path.name for path in tmp_path.iterdir()} and text in printed


def test_the_released_weights(authors, tmp_path, monkeypatch, treestack):
    monkeypatch.chdir(tmp_path)
    for folder in ("checkpoints", "blanks"):
        for path in (authors / folder).iterdir():
            (tmp_path / path.name).symlink_to(path)
    texts = [block.text for page in PAGES for block in blocks(page) if block.mark == "authors"]
    printed = [call(shlex.split(line, comments=True), treestack) for text in texts for line in text.splitlines()]
    assert "277 equations" in printed[-1]


def test_blocks_that_are_not_run_say_why():
    all_blocks = [block for page in PAGES for block in blocks(page)]
    assert {block.mark for block in all_blocks} <= {"", "skip", "file", "authors"}
    reasons = [block.argument for block in all_blocks if block.mark == "skip"]
    assert len(reasons) <= 9 and all(len(reason) > 20 for reason in reasons)
    other_shell = re.compile(r"^ *```(sh|shell|console)?\n\s*(treestack|python|make|\$) ", re.MULTILINE)
    assert [name(page) for page in PAGES if other_shell.search(page.read_text())] == [], "no test sees it: write ```bash"


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def anchors(page):
    """The anchors of a page's headings, as MkDocs and code hosts make them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", title)).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *COPIED], ids=name)
def test_links_lead_somewhere(page):
    for path, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists() and target.is_relative_to(ROOT), path
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), f"{path}#{anchor}"


def test_linked_files_are_copied_pages_are_in_the_navigation_and_commands_have_an_example():
    """Those of the patterns in docs/hooks.py; MkDocs, which the tests do not install, reports others as broken links."""
    names = ast.parse((ROOT / "docs" / "hooks.py").read_text()).body
    patterns = next(node.value for node in names if isinstance(node, ast.Assign) and node.targets[0].id == "COPIES")
    copied = {path for pattern in ast.literal_eval(patterns) for path in ROOT.glob(pattern)}
    for page in PAGES[1:]:
        targets = {(page.parent / path).resolve() for path in re.findall(r"\]\((?!\w+:|#|/)([^)#\s]+)", prose(page))}
        outside = {path for path in targets if not path.is_relative_to(ROOT / "docs")}
        assert outside <= copied, (name(page), outside - copied)
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert named == {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]}
    # Those that `treestack --help` lists, on the page of commands
    text, files = (ROOT / "docs" / "commands.md").read_text(), Path(cli.__file__).parent.glob("[a-z]*.py")
    assert [path for path in files if f"\ntreestack {path.stem.replace('_', '-')}" not in text] == []


def test_entries_of_the_python_pages_are_there():
    """Every `::: name` of docs/api can be imported; nothing of a machine stands in any page."""
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|usr|opt)/", page.read_text()), name(page)
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for entry in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            assert pydoc.locate(entry) is not None, entry


def test_the_readme_is_short_and_every_folder_of_its_layout_is_there():
    """Python stands in its first fifty lines, and no sentence has five figures."""
    assert len(README.encode()) <= 8192
    text, figure = prose(ROOT / "README.md"), re.compile(r"\d[\d,.]*(?:-\d[\d,.]*)?")  # a range counts as one
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    assert README.splitlines().index("```python") < 50
    paragraphs = [part for part in text.split("\n\n") if not part.lstrip().startswith(("|", "#", "!"))]
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", "\n\n".join(paragraphs))
    sentences = re.split(r"(?<=[.:;])\s|\n(?=- |\n)", text)
    assert [sentence for sentence in sentences if len(figure.findall(sentence)) >= 5] == []
    table = README.split("## Layout")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+)/`", "".join(line for line in table.splitlines() if line.startswith("| `"))))
    assert named == {path.parent.name for path in (ROOT / "dgl_treestack").glob("*/__init__.py")} - {"resources"}


def test_make_targets_are_there_and_quickstart_trains_the_configurations_that_are_shipped():
    for target in ("quickstart", "test", "check", "docs"):
        assert "--constraint constraints.txt" in dry_run(target, "VENV=/nowhere")
    names = re.findall(r"configs/\S+\.toml", dry_run("quickstart"))
    assert len(names) == 3 and all((ROOT / name).is_file() for name in names)
