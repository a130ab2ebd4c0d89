"""Settings: presets, TOML and overrides agree; what can't be used is rejected with its name and a way out."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import ConfigError
from clearhead.config import FAMILIES, PRESETS, Config, preset, settings

SETTINGS = settings()


def users(config: Config) -> set[str]:
    return {name for name in SETTINGS if config.is_users(name)}


def refused(name: str = "", value: object = None, *, values: dict[str, object]) -> ConfigError:
    """The error of overriding settings, which names one of them and its value."""
    with pytest.raises(ConfigError) as caught:
        Config().override(values)
    assert (caught.value.name, caught.value.value) == (name, value)
    return caught.value


def test_the_presets_are_the_shapes_that_are_stated() -> None:
    sizes = {name: values for name, values in PRESETS.items() if name not in FAMILIES}
    shapes = {
        name: (p["model.d_model"], p["model.n_heads"], p["model.d_ff"], p["model.n_encoder_layers"], p["model.dropout"])
        for name, p in sizes.items()
    }
    assert shapes == {
        "nano": (128, 4, 256, 2, 0.1),
        "mini": (256, 4, 512, 3, 0.1),
        "tiny": (128, 4, 256, 4, 0.3),
        "small": (256, 4, 1024, 4, 0.1),
        "base": (512, 8, 2048, 6, 0.1),
        "big": (1024, 16, 4096, 6, 0.3),
    }
    assert [p["train.warmup"] for p in sizes.values()] == [600, 300, 2000, 1000, 4000, 4000]
    for name in sizes:
        model = Config().override(preset(name)).model
        assert model.n_encoder_layers == model.n_decoder_layers and not model.pre_norm
        assert model.positions == "sinusoidal"


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_described_and_its_default_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    setting = SETTINGS[name]
    assert setting.help
    assert Config().override({name: setting.default}) == Config()


CHANGES = {
    "model.positions": ["rotary", "alibi"],
    "model.n_kv_heads": [1, 2, None],
    "model.pre_norm": [True, False],
    "data.train": [("a.tsv",), ("a.en", "a.fr"), ()],
    "data.name": ["plain", 'quo"ted\\ and\nbroken\tlines', "é"],
    "data.vocab_size": [300, None],
    "train.lr": [0.5, 1e-5, None],
    "train.steps": [1, 10**6],
    "decode.alpha": [0.0, 1.5],
}
CHANGED = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in CHANGES.items()})


@given(CHANGED)
def test_toml_and_dicts_are_read_back_to_the_same_settings(tmp_path_factory: pytest.TempPathFactory, changes) -> None:
    config = Config().override(changes)
    path = tmp_path_factory.mktemp("toml") / "settings.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert Config.from_toml(path) == config == Config.from_dict(config.to_dict())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("train.steps", "300", 300),
        ("train.steps", "1e5", 100_000),
        ("train.steps", 1e5, 100_000),
        ("train.seed", "20260101123456789", 20260101123456789),
        ("train.steps", "none", None),
        ("train.lr", "2e-3", 0.002),
        ("train.lr", "1", 1.0),
        ("model.pre_norm", "true", True),
        ("model.pre_norm", "No", False),
        ("model.norm", "rms", "rms"),
        ("data.train", "a.en,a.fr", ("a.en", "a.fr")),
        ("data.name", "true", "true"),
    ],
)
def test_a_text_of_the_command_line_is_read_as_its_settings_type(name: str, text: str, value: object) -> None:
    section, key = name.split(".")
    found = getattr(getattr(Config().override({name: text}), section), key)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "train.seed": ["1e30", -1],
        "train.steps": ["inf", "many", "3.5", True, 0],
        "train.lr": ["nan", "fast", float("inf"), 0.0],
        "train.warm_start": ["noise"],
        "train.epochs": [0.0],
        "train.warmup": [-1],
        "train.lr_end": [-1.0],
        "train.adam": [(0.9, 0.98, 0.0), (0.9, 1.0, 1e-9), (0.9, 0.98)],
        "train.average": [-1, 2.5],
        "data.normalise": [("NFD",), ("NFC", "NFKC")],
        "model.augment": [("shift",), ("turn",), ("crop=0",), ("shift=-1",), ("speed=1",), ("flip=2",)],
        "train.label_smoothing": [-0.1],
        "train.clip": [-1.0],
        "train.weight_decay": [-0.1],
        "train.hidden_span": [0.5],
        "train.budget": ["15", "m", "soon", "-3m", "0m", "3m1h"],
        "train.preset": ["smal", 3],
        "train.task": ["translte", "pairs"],
        "model.pre_norm": ["maybe"],
        "model.pooling": ["meen"],
        "model.d_model": [0, 2**18],
        "model.d_ff": [2**21, 2**62],
        "model.n_heads": [7],
        "model.n_kv_heads": [3],
        "model.n_encoder_layers": [0, 1001, 10**9],
        "model.n_decoder_layers": [0, 1001, 10**9],
        "model.src_vocab_size": [-1],
        "model.dropout": [1.0],
        "model.attention_dropout": [-0.1],
        "model.n_classes": [-1, 3],
        "model.n_token_types": [-1, 2],
        "model.head": ["span"],
        "model.norm_eps": [0.0, 1e-40, 2.0],
        "model.logit_scale": [0.0, 1e-300, 1e7],
        "data.name": [3],
        "data.train": [[1]],
        "data.split": [1.0],
        "data.vocab_size": [4],
        "data.max_len": [0],
        "data.batch_tokens": [0],
        "data.batch_sentences": [0],
        "data.separator": ['"', "ab"],
        "decode.beam": [0, 1001, 10**9],
        "decode.n_best": [5, 1001],
        "decode.alpha": [-1.0, 1e308],
        "decode.repetition_penalty": [1001.0],
        "decode.max_len": [0],
        "decode.max_ratio": [0.0],
        "decode.temperature": [0.0],
        "decode.top_p": [0.0, 1.1],
    }.items(),
)
def test_an_unusable_value_is_rejected_with_its_name(name: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ConfigError) as caught:
            Config().override({name: value})
        assert caught.value.name == name
        assert caught.value.value in (value, int(1e30))
        assert caught.value.expected


def test_the_wording_of_an_error() -> None:
    assert str(refused("data.split", 1.5, values={"data.split": "1.5"})) == (
        "data.split=1.5 is out of range\n  expected: 0 or more, and less than 1"
    )
    assert str(refused("train.steps", "many", values={"train.steps": "many"})) == (
        "train.steps='many' isn't valid\n  expected: a whole number"
    )
    assert str(refused("model.pooling", "meen", values={"model.pooling": "meen"})) == (
        "model.pooling='meen' isn't valid\n  expected: one of mean, first\n  did you mean 'mean'?"
    )
    assert str(refused("train.stpes", values={"train.stpes": 3})) == (
        "unknown setting 'train.stpes'\n  expected: a setting such as train.steps or decode.beam\n"
        "  did you mean 'train.steps'?"
    )


def test_an_error_begins_with_the_source_if_it_is_known() -> None:
    for values in ({"trian.steps": 1}, {"train.steps": "many"}):
        with pytest.raises(ConfigError) as without:
            Config().override(values)
        with pytest.raises(ConfigError) as caught:
            Config().override(values, source="run.toml")
        assert caught.value.what == f"run.toml: {without.value.what}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"train.steps": 10}, {"train.epochs": 2}),
        ({"train.steps": 10}, {"train.budget": "15m"}),
        ({"train.epochs": 2}, {"train.budget": "15m"}),
        ({"train.warm_steps": 10}, {"train.budget": "15m"}),
        ({"train.warm_start": "denoise"}, {"train.init_from": "models/a"}),
        ({"train.preset": "nano"}, {"train.init_from": "models/a"}),
    ],
)
def test_settings_that_contradict_each_other_are_rejected_if_the_user_gave_both(one: dict, other: dict) -> None:
    [(name, value)], [(second, _)] = one.items(), other.items()
    error = refused(name, value, values=one | other)
    assert second in error.what and error.expected.startswith("one of them, since ")
    assert Config().override(one) and Config().override(other)
    assert Config().override(other).assign(one, "budget").value(name) == value  # a choice is no contradiction


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("model.positions", {"model.d_model": 6, "model.n_heads": 2, "model.positions": "rotary"}),
        ("model.tie", {"model.src_vocab_size": 9}),
        ("model.copy", {"model.copy": True, "model.topology": "decoder-only"}),
        ("model.copy", {"model.copy": True, "model.src_vocab_size": 9, "model.tie": "none"}),
        ("model.copy", {"model.copy": True, "data.joint": False}),
        ("train.weight_decay", {"train.weight_decay": 0.1, "train.optimizer": "adam"}),
        ("train.lr_end", {"train.lr": 0.01, "train.lr_end": 0.02}),
        ("train.lr_end", {"train.lr_end": 0.01, "train.schedule": "paper"}),
        ("train.lr_end", {"train.lr_end": 0.01, "train.schedule": "constant"}),
        ("data.subword_dropout", {"data.subword_dropout": 0.1, "data.tokenizer": "word"}),
        ("decode.diverse", {"decode.diverse": True, "decode.sample": True}),
        ("decode.max_len", {"decode.max_len": 3, "decode.min_len": 4}),
    ],
)
def test_values_that_do_not_fit_each_other_are_rejected(name: str, values: dict[str, object]) -> None:
    error = refused(name, Config().override({}).value(name) if name not in values else values[name], values=values)
    assert error.expected


def test_values_that_fit_each_other_are_accepted() -> None:
    for tie in ("all", "target", "none"):
        assert Config().override({"model.copy": True, "model.tie": tie}).model.copy
    for decays in ("adamw", "muon", "none"):
        Config().override({"train.weight_decay": 0.1, "train.optimizer": decays})
    config = Config().override({"train.lr": 0.01, "train.lr_end": 0.01, "train.schedule": "cosine"})
    assert config.train.lr_end == config.train.lr


def test_an_encoder_alone_may_have_a_head_and_types_of_tokens() -> None:
    alone = Config().override({"model.topology": "encoder-only"})
    for head in ("none", "class", "span", "token"):
        assert alone.override({"model.head": head, "model.n_token_types": 2}).model.head == head
    assert alone.override({"model.head": "class", "model.n_classes": 4}).model.n_classes == 4


def test_a_stack_that_the_topology_does_not_have_needs_no_layers() -> None:
    assert (
        Config().override({"model.topology": "decoder-only", "model.n_encoder_layers": 0}).model.n_encoder_layers == 0
    )


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_named_brings_its_values_below_those_beside_it(name: str) -> None:
    beside = {"model.dropout": 0.25, "train.seed": 3}
    assert Config().override({"train.preset": name}) == Config().override(preset(name))
    assert Config().override({"train.preset": name} | beside) == Config().override(preset(name)).override(beside)
    assert Config().override({"train.preset": "none"}) == Config()


@pytest.mark.parametrize("name", [3, ["nano"], "nanno"])
def test_what_is_not_a_preset_is_rejected(name: object) -> None:
    with pytest.raises(ConfigError) as caught:
        preset(name)
    assert (caught.value.name, caught.value.value) == ("train.preset", name)


def test_what_a_preset_brings_is_nobodys_wish() -> None:
    by_name, by_values = Config().override({"train.preset": "nano"}), Config().override(preset("nano"))
    assert users(by_name) == users(by_values) == {"train.preset"}
    beside = Config().override(preset("nano") | {"model.dropout": 0.25})
    assert users(beside) == {"train.preset", "model.dropout"} and beside.model.dropout == 0.25


def test_a_value_is_found_by_its_dotted_name() -> None:
    assert Config().override({"train.steps": 7}).value("train.steps") == 7


def test_an_unknown_name_is_rejected_with_the_known_ones_and_a_suggestion() -> None:
    error = refused("train.preset", "smal", values={"train.preset": "smal"})
    assert "nano, mini, tiny" in error.expected and error.fix == "did you mean 'small'?"
    error = refused("train.task", "translte", values={"train.task": "translte"})
    assert "package.module:Class" in error.expected and error.fix == "did you mean 'translate'?"
    assert Config().override({"train.task": "my.tasks:Reverse"}).train.task == "my.tasks:Reverse"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"[modle]\nd_model = 4\n", "modle"),
        (b"train = 3\n", "train"),
        (b"[train]\nstep = 3\n", "train.step"),
        (b"[train\n", "mine.toml"),
        (b"\xff\xfe", "mine.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_rejected_with_its_name(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(path)
    assert "mine.toml" in caught.value.what and caught.value.name.endswith(name)


def test_a_file_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(Path("nowhere.toml"))
    assert caught.value.name == "nowhere.toml"


def test_override_takes_a_dictionary() -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override(["train.steps"])  # type: ignore[arg-type]
    assert caught.value.value == ["train.steps"]


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().train.steps = 3  # type: ignore[misc]


def test_a_task_brings_its_stacks_so_that_what_belongs_to_them_can_be_said_beside_it() -> None:
    language = Config().override({"train.task": "generate", "model.n_encoder_layers": "0"})
    assert (language.model.topology, language.model.n_encoder_layers) == ("decoder-only", 0)
    answers = Config().override({"model.n_token_types": 2, "train.task": "answer"})
    assert (answers.model.topology, answers.model.head, answers.model.n_token_types) == ("encoder-only", "span", 2)
    assert answers.origin("model.topology") == "task"
    own = Config().override({"train.task": "generate", "model.topology": "encoder-decoder"})
    assert own.model.topology == "encoder-decoder"  # which whoever trains refuses


def test_a_list_of_numbers_is_read_from_text_and_checked() -> None:
    assert Config().override({"model.more_eos_ids": "7,9"}).model.more_eos_ids == (7, 9)
    for wrong in ("7,x", [1.5], ["a"], [-1], [2], [0]):  # 2 is EOS, and 0 padding
        with pytest.raises(ConfigError) as caught:
            Config().override({"model.more_eos_ids": wrong})
        assert caught.value.name == "model.more_eos_ids"
