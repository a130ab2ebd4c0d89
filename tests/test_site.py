"""The documentation site builds without warnings, has all that the code knows, and finds what readers look for."""

import html
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

import clearhead
from clearhead.cli.entry import VERBS
from clearhead.cli.parser import parser_of
from clearhead.config import settings

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once. A warning fails every test."""
    for needed in ("sphinx", "myst_parser", "furo", "sklearn", "starlette"):
        pytest.importorskip(needed, reason=f"needs {needed}, which `pip install '.[site]'` installs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", f"{folder}/trees"]
    done = subprocess.run([*command, ROOT / "docs", folder / "html"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return folder / "html"


@cache
def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> set[str]:
    return set(map(html.unescape, re.findall(r'\bid="([^"]+)"', read(page))))


def pages(site: Path) -> list[Path]:
    """All pages but those that are models to click through."""
    return [it for it in site.rglob("*.html") if it.parent.name != "_downloads" and "furo" in read(it)]


def test_every_link_leads_to_a_file_and_a_place_in_it(site: Path) -> None:
    found = pages(site)
    assert len(found) > 40
    for page in found:
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', read(page)):
            link = unquote(html.unescape(link))
            if re.match(r"[a-z]+:", link):
                assert not link.startswith("http:") or "127.0.0.1" in link, f"{page.name}: {link}"
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            assert target.is_file(), f"{page.relative_to(site)}: {link}"
            if anchor and not anchor.startswith("q="):  # a question to the model in a page
                assert anchor in anchors(target), f"{page.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in pages(site):
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(https?:[^"]+)"', read(page))
        assert not loaded, f"{page.name}: {loaded}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", read(style)), style


def test_every_page_of_prose_can_be_reached_from_the_first(site: Path) -> None:
    links = re.findall(r'href="([^"#:]+)', read(site / "index.html"))  # the contents of the site are among them
    written = {it.relative_to(ROOT / "docs").with_suffix(".html") for it in (ROOT / "docs").rglob("*.md")}
    assert {it.as_posix() for it in written} - {"index.html"} <= set(links)


def test_every_setting_has_an_entry(site: Path) -> None:
    assert {f"confval-{it}" for it in settings()} <= anchors(site / "reference" / "settings.html")


def test_every_command_and_group_of_options_has_an_entry(site: Path) -> None:
    found = read(site / "command-line.html")
    titles = set(map(html.unescape, re.findall(r"<h[23]>(.*?)<a", found)))
    for name, verb in VERBS.items():
        groups = [it.title for it in parser_of(verb, full=True)._action_groups[2:] if it._group_actions]
        assert {name, *(f"{name}: {it}" for it in groups)} <= titles


def test_every_public_name_has_an_entry(site: Path) -> None:
    names = {f"clearhead.{it}" for it in clearhead.__all__}
    assert names <= anchors(site / "reference" / "python.html")


QUESTIONS = {
    "resume training": "training",
    "gpu out of memory": "training",
    "multiple gpus": "training",
    "learning rate": "training",
    "early stopping": "training",
    "fine-tune": "training",
    "time budget": "training",
    "install": "index",
    "quantize": "decoding",
    "translate": "tasks/translate",
    "beam size": "decoding",
    "temperature": "decoding",
    "jsonl": "data",
    "csv columns": "data",
    "duplicates": "check",
    "bleu": "scoring",
    "confusion matrix": "tasks/classify",
    "docker": "serving",
    "openai api": "serving",
    "hugging face": "exchange",
    "custom attention": "own-parts",
    "exit code": "errors",
    "nan loss": "diagnose",
    "sentence vectors": "tasks/embed",
    "train.warmup": "reference/settings",
}


def test_the_first_three_hits_answer_what_readers_type(site: Path, browser: Any) -> None:
    tab, missed = browser.new_page(), []
    for question, page in QUESTIONS.items():
        tab.goto(f"{(site / 'search.html').as_uri()}?q={quote(question)}")
        tab.wait_for_function("/found|matching/.test(document.querySelector('#search-results > p')?.innerText)")
        hits = tab.eval_on_selector_all("ul.search > li > a", "all => all.map(it => it.getAttribute('href'))")
        if not any(re.match(rf"{page}\.html\b", it) for it in hits[:3]):
            missed.append((question, hits[:3]))
    tab.close()
    assert not missed


def test_every_page_of_the_gallery_is_linked_and_shows_a_model(site: Path, browser: Any) -> None:
    tab, said = browser.new_page(), list[str]()
    tab.on("pageerror", lambda error: said.append(str(error)))
    written = sorted((ROOT / "docs" / "gallery").glob("*.html"))
    linked = re.findall(r'<a href="(\w+\.html[^"]*)"><img', read(site / "gallery" / "index.html"))
    assert sorted(it.partition("#")[0] for it in linked) == [it.name for it in written] and len(written) == 6
    for link in linked:
        tab.goto(f"{(site / 'gallery').as_uri()}/{link}")
        tab.locator("section#sentence").wait_for()
        assert tab.locator("nav a").count() > 3 and not said
    tab.close()
    assert sum(it.stat().st_size for it in written) < 3_000_000
