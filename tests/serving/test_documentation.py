"""The requests in docs/serving.md are answered."""

import json
import re
import shlex
from pathlib import Path

import pytest

from clearhead.cli.entry import VERBS
from clearhead.cli.parser import parser_of
from clearhead.serving.routes.task_routes import task_routes

from .small_models import make

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]


@pytest.fixture(scope="module")
def served(serve, model_folder: Path, answer_folder: Path, tmp_path_factory):
    kinds = {kind: make(tmp_path_factory.mktemp(kind), kind) for kind in ("sample", "see")}
    with serve(f"en-fr={model_folder}", f"a={answer_folder}", *(f"{k}={it}" for k, it in kinds.items())) as served:
        yield served


@pytest.mark.parametrize("command", [it for it in COMMANDS if "--json" in it], ids=lambda it: it[1].split("/", 1)[1])
def test_a_request_with_json_is_answered(served, command) -> None:
    path, body = command[1].removeprefix("localhost:8765"), json.loads(command[command.index("--json") + 1])
    if path == "/api/generate":
        body["text"] = "She "  # the small model doesn't know all letters
    if "model" in body:
        body["model"] = body["model"].partition("+")[0]  # routes/test_adapters.py tests those with an adapter
    found = served.post(path, body)
    assert found.status == 200
    if path == "/translate":
        assert found.json().keys() == {"translatedText"}


def test_every_path_in_the_table_exists_and_every_task_is_in_it(served) -> None:
    rows = [row.split("|")[1] for row in TEXT.splitlines() if row.startswith("| `")]
    paths = {path for row in rows for path in re.findall(r"(/[\w/.]+)", row)}
    described = served.ask("GET", "/openapi.json").json()["paths"]
    assert paths <= described.keys()
    assert (
        set(re.findall(r"`(?:POST /api/)?(\w+)`", next(row for row in rows if "/api/" in row))) == task_routes().keys()
    )


def test_every_option_that_the_page_and_the_units_name_exists() -> None:
    known = {it for action in parser_of(VERBS["serve"], full=True)._actions for it in action.option_strings}
    files = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "deploy").iterdir())
    lines = [line for line in (TEXT + files).splitlines() if "clearhead serve" in line or "ENTRYPOINT" in line]
    named = re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join([*re.findall(r"`[^`\n]+`", TEXT), *lines]))
    assert {"--host", "--allow-host"} <= {*named} <= {*known, "--json", "--text"}
