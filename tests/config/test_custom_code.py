"""Code that a model folder names runs only with consent, and is never found in the folder itself."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.config import Config
from clearhead.config.custom_code import check_consent, custom_parts, import_class, is_custom
from clearhead.errors import ConfigError, ModelError
from clearhead.folder.model_folder import load_model_folder, model_files, read_config, save_files

PARTS = {
    "model.front": "evil:A",
    "model.attention": "evil:A",
    "model.positions": "evil:A",
    "model.feed_forward": "evil:A",
    "model.norm": "evil:A",
    "train.task": "evil:A",
}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith(("evil", "mine")):
            del sys.modules[name]


def evil(folder: Path, name: str = "evil") -> None:
    (folder / f"{name}.py").write_text(
        f"import pathlib\npathlib.Path({str(folder / 'ran')!r}).touch()\nclass A(dict): where = __file__\n"
    )


def folder_with(config: Config, path: Path) -> Path:
    save_files(path, model_files(config=config.to_dict(), tokenizer="{}", weights={}))
    return path


@pytest.mark.usefixtures("weights_of_any_module")
@pytest.mark.parametrize("setting", PARTS)
def test_a_part_that_a_folder_names_is_an_error_until_it_is_allowed(tmp_path: Path, setting: str) -> None:
    config = Config().override({setting: PARTS[setting]})
    assert custom_parts(config) == {setting: "evil:A"}
    folder = folder_with(config, tmp_path / "model")
    evil(tmp_path)
    for read in (read_config, load_model_folder):
        for allowed in (False, [], ["mine:A"]):
            with pytest.raises(ModelError) as caught:
                read(folder, allow_custom_code=allowed)
            assert (caught.value.name, caught.value.value) == (setting, "evil:A")
            assert "allow_custom_code=True" in caught.value.fix
        with pytest.raises(ModelError):
            read(folder)
        for allowed in (True, ["evil:A"]):
            read(folder, allow_custom_code=allowed)
    assert not (tmp_path / "ran").exists()


def test_built_in_parts_need_no_consent(tmp_path: Path) -> None:
    config = Config().override({"model.positions": "rotary", "model.feed_forward": "gelu", "train.task": "generate"})
    assert custom_parts(config) == {} and not is_custom(None)
    check_consent(config, tmp_path, allowed=False)
    assert read_config(folder_with(config, tmp_path / "model")).model == config.model


def test_every_setting_that_can_name_a_class_is_checked() -> None:
    from clearhead.config import settings

    named = {name for name, it in settings().items() if "package.module:Class" in it.help}
    assert named | {"train.task"} == PARTS.keys()


def test_the_current_folder_is_searched_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path, tmp_path / "elsewhere"):
        evil(folder, "mine")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(tmp_path / "elsewhere"), *sys.path])
    before = sys.path.copy()
    assert import_class("model.norm", "mine:A", dict).where == str(tmp_path / "elsewhere" / "mine.py")
    assert sys.path == before and not (tmp_path / "ran").exists()


def test_what_a_module_adds_to_the_path_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.path.append('/mine')\nclass A(dict): pass\n")
    before = sys.path.copy()
    import_class("model.norm", "mine:A", dict)
    assert sys.path == [*before, "/mine"]
    sys.path.remove("/mine")


@pytest.mark.parametrize("on_path", [False, True])
def test_a_model_folder_is_never_searched_even_with_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool
) -> None:
    folder = folder_with(Config().override({"model.norm": "evil:A"}), tmp_path / "model")
    evil(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path] if on_path else sys.path)
    assert read_config(folder, allow_custom_code=True).model.norm == "evil:A"
    with pytest.raises(ConfigError) as caught:
        import_class("model.norm", "evil:A", dict)
    assert caught.value.name == "model.norm" and not (folder / "ran").exists()


def test_a_forged_configuration_is_read_without_an_import(tmp_path: Path) -> None:
    folder = folder_with(Config(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_bytes())
    config["model"]["attention"] = "antigravity:X"
    save_files(folder, {"config.json": json.dumps(config).encode()})
    with pytest.raises(ModelError):
        read_config(folder)
    assert "antigravity" not in sys.modules
