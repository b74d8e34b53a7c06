"""The README is short, and says nothing that is not there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PROSE = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
PARAGRAPHS = [part for part in PROSE.split("\n\n") if not part.lstrip().startswith(("|", "#", "!"))]
FIGURE = re.compile(r"\d[\d,.]*(?:-\d[\d,.]*)?")  # a range counts as one


def test_it_is_short():
    assert len(README.encode()) <= 8192
    assert [line for line in PROSE.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_no_sentence_has_five_figures():
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", "\n\n".join(PARAGRAPHS))
    sentences = re.split(r"(?<=[.:;])\s|\n(?=- |\n)", text)
    assert [sentence for sentence in sentences if len(FIGURE.findall(sentence)) >= 5] == []


def test_python_stands_in_the_first_fifty_lines():
    assert README.splitlines().index("```python") < 50


def dry_run(*arguments):
    return subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["quickstart", "test", "check", "docs"])
def test_make_targets_are_there(target):
    assert "--constraint constraints.txt" in dry_run(target, "VENV=/nowhere")


def test_quickstart_trains_the_configurations_that_are_shipped():
    names = re.findall(r"configs/\S+\.toml", dry_run("quickstart"))
    assert len(names) == 3
    assert all((ROOT / name).is_file() for name in names)


def test_every_folder_of_the_layout_is_there():
    table = README.split("## Layout")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+)/`", "".join(line for line in table.splitlines() if line.startswith("| `"))))
    folders = {path.parent.name for path in (ROOT / "dgl_treestack").glob("*/__init__.py")} - {"resources"}
    assert named == folders
