"""Links out of this folder: pages link to files of the repository by relative paths, which a code host resolves.

The site has a copy of these files under `repository/`; the hook adds the copies and rewrites the links of every page to them.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
COPIES = (
    "CHANGELOG.md",
    "LICENSE",
    "SECURITY.md",
    "benchmarks/README.md",
    "data/*.md",
    "dgl_treestack/resources/models/*/MODEL_CARD.md",
    "examples/*.py",
    "examples/*.ipynb",
    "figures/*.*",
    "figures/*/*/*.*",
    "tools/device-reports/*.json",
)
LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)(#[^)\s]*)?\)")


def site_path(path: str) -> str:
    """The path on the site of a file of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def repository_path(path: str) -> str:
    """The path in the repository of a page of the site."""
    return path.removeprefix("repository/") if path.startswith("repository/") else f"docs/{path}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of `COPIES`."""
    for pattern in COPIES:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            copy = File.generated(config, site_path(name), abs_src_path=str(path))
            copy.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(copy)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite relative links that lead from `docs/` to a copied file, or from a copied page back."""
    folder = posixpath.dirname(repository_path(page.file.src_uri))

    def rewrite(link: re.Match[str]) -> str:
        target = site_path(posixpath.normpath(posixpath.join(folder, link[1])))
        if files.get_file_from_path(target) is None:
            return link[0]  # a broken link: MkDocs reports it
        return f"]({posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or '.')}{link[2] or ''})"

    return LINK.sub(rewrite, markdown)
