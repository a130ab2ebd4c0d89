"""The page is one file that asks for nothing, runs only its own scripts, and shows texts as texts."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from clearhead.exchange.page.page_file import SCRIPTS, embedded_document
from clearhead.inspection.page.document import joined_scripts, page_document, served_document

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "<img src=x onerror=alert(1)>",
    "\u2028",
    "\ud800",
    "&lt;",
    "]]>",
]


class Scripts(HTMLParser):
    """The scripts, styles and attributes of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in ("script", "style"):
            self.found.append([tag, dict(attrs).get("type") or "", ""])

    def handle_data(self, data) -> None:
        if self.found and self.get_starttag_text() and self.cdata_elem:
            self.found[-1][2] += data


def parsed(document: str) -> Scripts:
    parser = Scripts()
    parser.feed(document)
    return parser


def digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text) -> None:
    document = page_document({"source": text, "text": text, "tokens": [text], text: 1.5})
    found = parsed(document)
    assert found.tags.count("script") == 2 and "img" not in found.tags
    data = next(body for _, kind, body in found.found if kind == "application/json")
    expected = text.replace("\ud800", "\ufffdd800")
    assert json.loads(data) == {"source": expected, "text": expected, "tokens": [expected], expected: 1.5}


def test_only_the_scripts_and_styles_of_the_page_may_run() -> None:
    document = page_document({"source": "a", "text": "b"})
    found, policy = parsed(document), re.search(r'Content-Security-Policy" content="([^"]*)"', document)[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    style, script = (
        next(body for tag, kind, body in found.found if (tag, kind) == it)
        for it in (("style", ""), ("script", "module"))
    )
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == f"'{digest(style)}'" and rules["script-src"] == f"'{digest(script)}'"
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "style")]
    assert [value.split(",")[0] for name, value in found.attributes if name == "href"] == ["data:image/svg+xml"]


def test_numbers_that_are_not_finite_become_null() -> None:
    document = page_document({"source": "a", "text": "b", "values": (float("nan"), float("-inf"), 2.0)})
    assert '"values":[null,null,2.0]' in document


def test_only_a_served_page_may_ask_and_only_its_own_server() -> None:
    model = {"name": "models/a", "task": "translate", "reads": "text"}
    document = served_document([model])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document)[1]
    assert "connect-src 'self'" in policy and "connect-src" not in page_document({"source": "a"})
    data = next(body for _, kind, body in parsed(document).found if kind == "application/json")
    assert json.loads(data) == {"models": [model]}
    assert re.findall(r"fetch\((.)([^/]*)/", joined_scripts("served")) == [("`", "api")]


def test_a_page_with_a_model_holds_its_weights_and_may_not_ask() -> None:
    document = embedded_document({"models": [{"name": "<b>"}]}, b"\x00\xff")
    found, policy = parsed(document), re.search(r'Content-Security-Policy" content="([^"]*)"', document)[1]
    assert ["script", "text/plain", "AP8="] in found.found and found.tags.count("b") == 0
    assert "connect-src" not in policy and "default-src 'none'" in policy
    assert f"script-src '{digest(joined_scripts('embedded', SCRIPTS))}'" in policy


@pytest.mark.parametrize("entry", ["file", "embedded"])
def test_the_scripts_of_a_file_ask_for_nothing(entry: str) -> None:
    script = joined_scripts(entry, SCRIPTS)
    addresses = set(re.findall(r"https?://[^\"'` ]+", script))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|eval|innerHTML|insertAdjacentHTML|document\.write)\b", script
    )
    assert not re.search(r"^import ", script, re.MULTILINE) and len(script) <= (162_300 if entry == "file" else 236_700)


def test_only_a_page_that_answers_has_the_scripts_that_ask_and_run_a_model() -> None:
    for entry, asks, runs in (("file", False, False), ("served", True, False), ("embedded", True, True)):
        script = joined_scripts(entry, SCRIPTS)
        assert ("askingForm" in script, "class SelfAttention" in script) == (asks, runs)


@pytest.mark.parametrize("entry", ["file", "served", "embedded"])
def test_the_joined_scripts_are_valid(tmp_path, entry) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node")
    path = tmp_path / "page.mjs"
    path.write_text(joined_scripts(entry, SCRIPTS), encoding="utf-8")
    done = subprocess.run(["node", "--check", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
