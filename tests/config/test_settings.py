"""The settings as a whole: their number, the documentation of each, and the names that earlier versions had."""

import json
import re
from pathlib import Path

import pytest

from clearhead.config import Config, settings
from clearhead.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs"
NAMES = [name for name, it in settings().items() if not it.fact]
EARLIER = {
    "model": {
        "activation": "gelu", "feed_forward": None, "shift": 2, "flip": True, "crop": 0.6, "spec_augment": 0.0,
        "speed": 0.1, "pooler": "none", "token_transform": False, "positions": "rotary", "rotary_base": 500_000.0,
        "rotary_scaling": "llama3:8.0:1.0:4.0:8192", "relative_buckets": 32, "relative_distance": 128,
    },
    "data": {"unicode": "NFKC", "whitespace": False, "lowercase": True, "label_separator": ";"},
    "train": {"beta1": 0.9, "beta2": 0.99, "eps": 1e-9, "average": 0, "ema": 0.999, "keep": 5},
}  # fmt: skip
NOW = {
    "model.feed_forward": "gelu", "model.augment": ("shift=2", "flip", "crop=0.6", "speed=0.1"),
    "model.head_layer": "none", "model.rotary": "500000:llama3:8.0:1.0:4.0:8192", "model.relative_buckets": (32, 128),
    "data.normalise": ("NFKC", "lowercase"), "data.label_kind": "several:;",
    "train.adam": (0.9, 0.99, 1e-9), "train.average": 0.999,
}  # fmt: skip


def test_there_are_few_enough_settings_to_know() -> None:
    assert len(NAMES) <= 137


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_in_a_page_of_the_documentation(name: str) -> None:
    pages = [page.read_text() for page in DOCS.rglob("*.md") if page.name != "command-line.md"]
    key = name.split(".")[1]
    spellings = rf"\b{re.escape(name)}\b|`{key}`|--{key.replace('_', '-')}\b"
    assert any(re.search(spellings, page) for page in pages)


def test_a_folder_of_an_earlier_version_has_the_settings_of_this_one() -> None:
    origins = {"model.activation": "task", "train.ema": "user", "train.beta2": "user", "train.beta1": "preset"}
    for more in ({"origins": origins}, {}):
        config = Config.from_record(json.loads(json.dumps({**EARLIER, **more})), source="config.json")
        assert {name: config.value(name) for name in NOW} == NOW
    assert config.origin("model.feed_forward") == "unknown"
    config = Config.from_record({**EARLIER, "origins": origins}, source="config.json")
    assert [config.origin(it) for it in ("model.feed_forward", "train.average", "train.adam")] == [
        "task",
        "user",
        "user",
    ]
    assert Config.from_record(config.to_record(), source="config.json") == config


def test_the_usual_mark_between_labels_need_not_be_named() -> None:
    config = Config.from_record({"data": {"label_separator": "|"}}, source="config.json")
    assert config.data.label_kind == "several" == Config().override({"data.label_kind": "several:|"}).data.label_kind


def test_a_folder_of_an_earlier_version_with_defaults_has_the_defaults_of_this_one() -> None:
    plain = {
        "activation": "relu",
        "feed_forward": None,
        "rotary_base": 10_000.0,
        "rotary_scaling": "none",
        "flip": False,
    }
    assert Config.from_record({"model": plain, "data": {"unicode": "NFC"}}, source="config.json") == Config()


def test_a_file_with_settings_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (path := tmp_path / "old.toml").write_text(
        '[model]\nactivation = "silu"\n[train]\nbeta1 = 0.9\nbeta2 = 0.99\neps = 1e-9\nema = 0.99\n'
    )
    config = Config.from_toml(path)
    found = config.model.feed_forward, config.train.adam, config.train.average
    assert found == ("silu", (0.9, 0.99, 1e-9), 0.99)
    assert config.is_users("model.feed_forward") and config.is_users("train.adam")
    path.write_text("[train]\nbeta2 = 0.99\nadam = [0.9, 0.98, 1e-9]\n")
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(path)
    assert caught.value.name == "train.beta2"


@pytest.mark.parametrize(
    ("name", "value", "new"),
    [
        ("data.lowercase", "true", "data.normalise"),
        ("model.rotary_scaling", '"linear:4"', "model.rotary"),
        ("model.speed", "0.2", "model.augment"),
        ("model.pooler", '"none"', "model.head_layer"),
        ("model.token_transform", "false", "model.head_layer"),
        ("model.relative_distance", "64", "model.relative_buckets"),
        ("train.beta2", "0.99", "train.adam"),
    ],
)
def test_a_file_with_a_part_of_a_setting_is_an_error_that_says_the_new_one(
    tmp_path: Path, name: str, value: str, new: str
) -> None:
    """Defaults in place of the missing parts would replace what the task or a preset says about them."""
    section, key = name.split(".")
    (path := tmp_path / "old.toml").write_text(f"[{section}]\n{key} = {value}\n")
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(path)
    assert caught.value.name == name and new in caught.value.what and new in caught.value.fix


def test_an_earlier_setting_without_an_effect_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "old.toml").write_text("[train]\nkeep = 5\naverage = 3\n")
    assert Config.from_toml(path).train.average == 3
    assert "train.keep=5" in capsys.readouterr().err
    path.write_text("[train]\nkeep = 5\n")
    assert not Config.from_toml(path).is_users("train.average")
    assert "train.keep=5" in capsys.readouterr().err
    model = {"activation": "gelu", "feed_forward": "own:Wide"}
    config = Config.from_record({"model": model}, source="config.json", allow_custom_code=True)
    assert config.model.feed_forward == "own:Wide"
    assert "model.activation=gelu" in capsys.readouterr().err
    Config.from_record(EARLIER, source="config.json")
    never = {"activation": "relu", "feed_forward": "swiglu"}  # the activation had no effect on it before, either
    assert Config.from_record({"model": never}, source="config.json").model.feed_forward == "swiglu"
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("old", "new"), [("model.activation", "model.feed_forward"), ("train.keep", "train.average")])
def test_an_earlier_name_is_an_error_that_says_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override({old: "gelu"})
    assert caught.value.name == old and new in caught.value.what and new in caught.value.fix


def test_the_token_head_of_another_activation_is_not_carried_over() -> None:
    model = {"token_transform": True, "activation": "relu", "feed_forward": "gelu"}
    with pytest.raises(ConfigError) as caught:
        Config.from_record({"model": model}, source="config.json")
    assert caught.value.name == "model.token_transform"
