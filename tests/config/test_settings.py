"""Settings: presets, TOML and overrides agree, and what cannot be used is refused with its name and a way out."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import ConfigError
from clearhead.config import PRESETS, Config, chosen, preset, settings

SETTINGS = settings()


def refused(message: str) -> "pytest.RaisesExc[ConfigError]":
    return pytest.raises(ConfigError, match=re.escape(message))


def test_the_presets_are_the_shapes_that_are_stated() -> None:
    shapes = {
        name: (p["model.d_model"], p["model.n_heads"], p["model.d_ff"], p["model.n_encoder_layers"], p["model.dropout"])
        for name, p in PRESETS.items()
    }
    assert shapes == {
        "nano": (128, 4, 256, 2, 0.1),
        "mini": (256, 4, 512, 3, 0.1),
        "tiny": (128, 4, 256, 4, 0.3),
        "small": (256, 4, 1024, 4, 0.1),
        "base": (512, 8, 2048, 6, 0.1),
        "big": (1024, 16, 4096, 6, 0.3),
    }
    assert [p["train.warmup"] for p in PRESETS.values()] == [600, 300, 2000, 1000, 4000, 4000]
    for name in PRESETS:
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
    ("name", "value", "message"),
    [
        ("train.stpes", 3, "the command line names an unknown setting 'train.stpes'; did you mean 'train.steps'?"),
        ("quux", 3, "the command line names an unknown setting 'quux'"),
        ("train.seed", "1e30", "train.seed = 1000000000000000019884624838656 cannot be used; expected below 2^63"),
        ("train.steps", "inf", "the command line: train.steps = 'inf' is not a whole number"),
        ("train.steps", "many", "the command line: train.steps = 'many' is not a whole number"),
        ("train.steps", "3.5", "the command line: train.steps = '3.5' is not a whole number"),
        ("train.steps", True, "the command line: train.steps = True is not a whole number"),
        ("train.lr", "nan", "the command line: train.lr = 'nan' is not a finite number"),
        ("train.lr", "fast", "the command line: train.lr = 'fast' is not a finite number"),
        ("train.lr", float("inf"), "the command line: train.lr = inf is not a finite number"),
        ("model.pre_norm", "maybe", "the command line: model.pre_norm = 'maybe' is not true or false"),
        ("data.name", 3, "the command line: data.name = 3 is not a text"),
        ("data.train", [1], "the command line: data.train = [1] is not a list of texts"),
        ("train.warm_start", "noise", "train.warm_start = 'noise' is not one of '' (nothing), denoise"),
        ("model.pooling", "meen", "model.pooling = 'meen' is not one of mean, first; did you mean 'mean'?"),
        ("model.d_model", 0, "model.d_model = 0 cannot be used; expected at least 1"),
        ("model.n_heads", 7, "model.n_heads = 7 cannot be used; expected a divisor of model.d_model = 512"),
        ("model.n_kv_heads", 3, "model.n_kv_heads = 3 cannot be used; expected a divisor of model.n_heads = 8"),
        ("model.n_encoder_layers", 0, "model.n_encoder_layers = 0 cannot be used; expected at least 1"),
        ("model.n_decoder_layers", 0, "model.n_decoder_layers = 0 cannot be used; expected at least 1"),
        ("model.src_vocab_size", -1, "model.src_vocab_size = -1 cannot be used; expected at least 0"),
        (
            "model.src_vocab_size",
            9,
            "model.tie = all cannot be used; expected one vocabulary for both sides (they have 9",
        ),
        ("model.dropout", 1.0, "model.dropout = 1.0 cannot be used; expected at least 0 and below 1"),
        (
            "model.attention_dropout",
            -0.1,
            "model.attention_dropout = -0.1 cannot be used; expected at least 0 and below 1",
        ),
        ("model.n_classes", -1, "model.n_classes = -1 cannot be used; expected at least 0"),
        ("model.n_classes", 3, "model.n_classes = 3 cannot be used; expected 0 unless model.head = 'class'"),
        ("model.n_token_types", -1, "model.n_token_types = -1 cannot be used; expected at least 0"),
        (
            "model.n_token_types",
            2,
            "model.n_token_types = 2 cannot be used; expected 0 unless model.topology = 'encoder-only', "
            "which train.task = 'answer' brings",
        ),
        (
            "model.head",
            "span",
            "model.head = span cannot be used; expected 'none' unless model.topology = 'encoder-only', "
            "which train.task = 'classify' or 'answer' brings",
        ),
        ("model.norm_eps", 0.0, "model.norm_eps = 0.0 cannot be used; expected above 0"),
        ("data.split", 1.0, "data.split = 1.0 cannot be used; expected at least 0 and below 1"),
        ("data.vocab_size", 4, "data.vocab_size = 4 cannot be used; expected at least 5"),
        ("data.max_len", 0, "data.max_len = 0 cannot be used; expected at least 1"),
        ("data.batch_tokens", 250, "data.batch_tokens = 250 cannot be used; expected at least data.max_len + 1 = 251"),
        ("data.batch_sentences", 0, "data.batch_sentences = 0 cannot be used; expected at least 1"),
        ("train.steps", 0, "train.steps = 0 cannot be used; expected at least 1"),
        ("train.epochs", 0.0, "train.epochs = 0.0 cannot be used; expected above 0"),
        ("train.warmup", -1, "train.warmup = -1 cannot be used; expected at least 0"),
        ("train.lr", 0.0, "train.lr = 0.0 cannot be used; expected above 0"),
        ("train.lr_end", -1.0, "train.lr_end = -1.0 cannot be used; expected at least 0"),
        ("train.eps", 0.0, "train.eps = 0.0 cannot be used; expected above 0"),
        ("train.beta2", 1.0, "train.beta2 = 1.0 cannot be used; expected at least 0 and below 1"),
        ("train.label_smoothing", -0.1, "train.label_smoothing = -0.1 cannot be used; expected at least 0 and below 1"),
        ("train.clip", -1.0, "train.clip = -1.0 cannot be used; expected at least 0"),
        ("train.weight_decay", -0.1, "train.weight_decay = -0.1 cannot be used; expected at least 0"),
        ("decode.beam", 0, "decode.beam = 0 cannot be used; expected at least 1"),
        ("decode.alpha", -1.0, "decode.alpha = -1.0 cannot be used; expected at least 0"),
        ("decode.alpha", 1e308, "decode.alpha = 1e+308 cannot be used; expected at most 100"),
        (
            "decode.repetition_penalty",
            1001.0,
            "decode.repetition_penalty = 1001.0 cannot be used; expected at most 1000",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(name: str, value: object, message: str) -> None:
    with refused(message):
        Config().override({name: value})


def test_rotary_positions_need_heads_of_even_width() -> None:
    with refused("model.positions = rotary cannot be used; expected an even head width (here it is 3)"):
        Config().override({"model.d_model": 6, "model.n_heads": 2, "model.positions": "rotary"})


def test_a_pointer_needs_a_source_and_one_vocabulary_for_both_sides() -> None:
    message = "model.copy = True cannot be used; expected false unless model.topology = 'encoder-decoder' with one"
    for beside in ({"model.topology": "decoder-only"}, {"model.src_vocab_size": 9, "model.tie": "none"}):
        with refused(message):
            Config().override({"model.copy": True} | beside)
    with refused("model.copy = True cannot be used; expected false without data.joint = true"):
        Config().override({"model.copy": True, "data.joint": False})
    for tie in ("all", "target", "none"):
        assert Config().override({"model.copy": True, "model.tie": tie}).model.copy


def test_an_encoder_alone_may_have_a_head_and_types_of_tokens() -> None:
    alone = Config().override({"model.topology": "encoder-only"})
    for head in ("none", "class", "span", "token"):
        assert alone.override({"model.head": head, "model.n_token_types": 2}).model.head == head
    assert alone.override({"model.head": "class", "model.n_classes": 4}).model.n_classes == 4


def test_a_mean_of_checkpoints_beside_a_moving_average_is_refused() -> None:
    with refused("train.average = 5 cannot be used; expected 0 beside train.ema, which is an average already"):
        Config().override({"train.average": 5, "train.ema": 0.99})


def test_a_decay_is_refused_with_the_optimizer_that_has_none() -> None:
    with refused("train.weight_decay = 0.1 cannot be used; expected 0 with adam, or optimizer = 'adamw' or 'muon'"):
        Config().override({"train.weight_decay": 0.1, "train.optimizer": "adam"})
    for decays in ("adamw", "muon", "none"):
        Config().override({"train.weight_decay": 0.1, "train.optimizer": decays})


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


def test_what_a_preset_brings_is_nobodys_wish() -> None:
    by_name, by_values = Config().override({"train.preset": "nano"}), Config().override(preset("nano"))
    assert by_name.given == by_values.given == {"train.preset"}
    beside = Config().override(preset("nano") | {"model.dropout": 0.25})
    assert beside.given == {"train.preset", "model.dropout"} and beside.model.dropout == 0.25


def test_a_value_is_found_by_its_dotted_name() -> None:
    assert Config().override({"train.steps": 7}).value("train.steps") == 7


def test_an_unknown_preset_is_refused_with_those_that_there_are() -> None:
    with refused("unknown preset 'smal'; there are nano, mini, tiny, small, base, big; did you mean 'small'?"):
        preset("smal")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[modle]\nd_model = 4\n", "has an unknown section [modle]; did you mean 'model'?"),
        (b"train = 3\n", "train = 3 is no section; expected [train] with settings below it"),
        (b"[train]\nstep = 3\n", "names an unknown setting 'train.step'; did you mean 'train.steps'?"),
        (b"[train\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(path)
    assert "mine.toml" in str(caught.value) and message in str(caught.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with refused("cannot read the configuration nowhere.toml: No such file or directory"):
        Config.from_toml(Path("nowhere.toml"))


def test_a_rate_to_end_at_is_below_the_peak_and_of_a_schedule_that_falls() -> None:
    with refused("train.lr_end = 0.02 cannot be used; expected at most train.lr = 0.01"):
        Config().override({"train.lr": 0.01, "train.lr_end": 0.02})
    for schedule in ("paper", "constant"):
        with refused(f"train.lr_end = 0.01 cannot be used; expected 0 with train.schedule = {schedule}, or cosine or"):
            Config().override({"train.lr_end": 0.01, "train.schedule": schedule})
    config = Config().override({"train.lr": 0.01, "train.lr_end": 0.01, "train.schedule": "cosine"})
    assert config.train.lr_end == config.train.lr


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().train.steps = 3  # type: ignore[misc]


def test_an_open_choice_is_a_bug_where_it_should_have_been_made() -> None:
    assert chosen(3) == 3
    with pytest.raises(AssertionError, match="a choice was left open"):
        chosen(None)


def test_a_task_brings_its_stacks_so_that_what_belongs_to_them_can_be_said_beside_it() -> None:
    language = Config().override({"train.task": "generate", "model.n_encoder_layers": "0"})
    assert (language.model.topology, language.model.n_encoder_layers) == ("decoder-only", 0)
    answers = Config().override({"model.n_token_types": 2, "train.task": "answer"})
    assert (answers.model.topology, answers.model.head, answers.model.n_token_types) == ("encoder-only", "span", 2)
    assert "model.topology" not in answers.given
    own = Config().override({"train.task": "generate", "model.topology": "encoder-decoder"})
    assert own.model.topology == "encoder-decoder"  # which whoever trains refuses
