"""The model in the package: `demo` is its name, it translates, and nothing changes it."""

from pathlib import Path

import pytest

from clearhead import TrainingError, load, train
from clearhead.cli import main
from clearhead.config import Config
from clearhead.folder.adapters import weights_digest
from clearhead.folder.atomic import BUNDLED
from clearhead.folder.manifest import read_verified
from clearhead.folder.model_folder import model_path, read_card
from clearhead.serving.served_models import ModelName, with_adapters
from clearhead.training.init_from import InitFrom

PAIRS = "Hello!\tBonjour !\nThe cat is sleeping.\tLe chat dort.\n"


def contents() -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in BUNDLED.rglob("*")}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_it_is_whole_small_and_its_card_says_how_to_train_it_again() -> None:
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= read_verified(BUNDLED).keys()
    assert sum(map(len, contents().values())) < 6e6
    card = read_card(BUNDLED)
    assert "`clearhead demo` trains this model again" in card and f"`{weights_digest(BUNDLED)}`" in card


def test_demo_is_its_name_unless_there_is_a_folder_of_that_name(here: Path) -> None:
    assert load("demo")(["The black cat is sleeping.", "Hello!"]) == ["Le chat noir dort.", "Bonjour !"]
    (here / "demo.txt").touch()
    assert model_path("demo") == model_path(Path("demo")) == BUNDLED
    assert model_path("runs/demo") == Path("runs/demo")
    (here / "demo").touch()
    assert model_path("demo") == BUNDLED, "a file isn't a model"
    (here / "demo").unlink()
    (here / "demo").mkdir()
    assert model_path("demo") == Path("demo")


@pytest.mark.parametrize("words", [
    ["translate", "demo", "Hello!"], ["info", "demo"], ["explain", "demo", "Hello!"], ["explain", "demo", "--film"],
    ["evaluate", "demo", "--data", "pairs.tsv"], ["ablate", "demo", "pairs.tsv"],
    ["export", "demo", "--to", "page", "--out", "page.html"], ["diagnose", "demo"],
], ids=" ".join)  # fmt: skip
def test_commands_take_its_name_and_leave_it_as_it_is(
    words: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    before = contents()
    assert main(words) == 0, capsys.readouterr().err
    assert contents() == before
    done = capsys.readouterr()
    if words[0] in ("evaluate", "ablate"):
        assert "weren't stored" in done.err and "isn't changed" in done.err and str(BUNDLED) in done.err


def test_nothing_is_written_to_it(here: Path) -> None:
    app, before = load("demo"), contents()
    (here / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    pairs = [tuple(line.split("\t")) for line in PAIRS.splitlines()]
    with pytest.raises(TrainingError) as caught:
        app.save_evaluation(app.evaluate(pairs))
    assert caught.value.name == "folder" and str(BUNDLED) in caught.value.fix
    with pytest.raises(TrainingError) as caught:
        train(Config().override({"data.train": ("pairs.tsv",), "train.steps": 1}), BUNDLED, replace=True)
    assert caught.value.name == "folder"
    assert contents() == before


def test_runs_start_from_it_and_servers_name_it() -> None:
    assert InitFrom.load(Path("demo"), allow_custom_code=False).path == BUNDLED
    assert [it.name for it in with_adapters([ModelName.read("demo"), ModelName.read("fr=demo")], [])] == ["demo", "fr"]
