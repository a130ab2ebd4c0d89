"""Sphinx settings of the documentation site. Run `make site`.

The pages are the Markdown files of this folder. What the code knows is filled in while they're read: a line such as
`<!-- settings -->` becomes the list of all settings.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # this checkout, whatever is installed

from generated import fill_in  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

from clearhead.version import __version__  # noqa: E402

project, author, copyright = "Clearhead", "The Clearhead authors", "The Clearhead authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme, html_title = "furo", f"Clearhead {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_search_scorer = f"{ROOT}/docs/search_ranking.js"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
highlight_language = "bash"  # code blocks that name no language are commands
pygments_dark_style = "github-dark"
default_role = "code"  # backticks in docstrings
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
python_display_short_literal_types = True

SOURCE = ""
if repository := os.environ.get("GITHUB_REPOSITORY"):  # GitHub's machines set it: links lead to the source there
    SOURCE = f"https://github.com/{repository}/blob/main/"
    html_theme_options = {
        "source_repository": f"https://github.com/{repository}/",
        "source_branch": "main",
        "source_directory": "docs/",
    }

_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_INDEX = re.compile(r"^<!-- index: (.*) -->$", flags=re.MULTILINE)  # words that readers search for, in place of ours
_ELSEWHERE = {"results": "benchmarks/RESULTS.md", "changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}
_PAGES = {path: f"docs/{name}.md" for name, path in _ELSEWHERE.items()}


def read_page(_app: Sphinx, name: str, content: list[str]) -> None:
    """Fill in what the code knows, read pages that live elsewhere, and lead links out of this folder to the source."""
    path = Path(_ELSEWHERE.get(name, f"docs/{name}.md"))
    text = (ROOT / path).read_text(encoding="utf-8") if name in _ELSEWHERE else fill_in(content[0])

    def led(link: re.Match[str]) -> str:
        shown, target, anchor = link.groups("")
        target = os.path.normpath(path.parent / target)
        target = _PAGES.get(target, target)
        if target.startswith("docs/"):
            return f"{shown}({target.removeprefix('docs')}{anchor})"
        if SOURCE:
            return f"{shown}({SOURCE}{target}{anchor})"
        is_download = (ROOT / target).is_file() and not target.endswith(".md")  # Sphinx takes these for pages
        return f"{shown}(/../{target})" if is_download else shown[1:-1]

    content[0] = _INDEX.sub(_indexed, _LINK.sub(led, text))


def _indexed(terms: re.Match[str]) -> str:
    return "```{index} " + ", ".join(f"! {it.strip()}" for it in terms[1].split(",")) + "\n```"


def copy_gallery(app: Sphinx, error: Exception | None) -> None:
    """Copy the pages of models and their pictures, which need no template."""
    for file in (ROOT / "docs" / "gallery").glob("*.[hj]*"):  # html and jpg
        if not error:
            shutil.copy(file, app.outdir / "gallery")


def drop_back_links(_app: Sphinx, name: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Leave out the links from source code back to the reference: they assume one module for all names."""
    if name.startswith("_modules/"):
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context.get("body", ""))


def setup(app: Sphinx) -> None:
    """Connect the functions of this file."""
    app.connect("html-page-context", drop_back_links)
    app.connect("source-read", read_page)
    app.connect("build-finished", copy_gallery)
