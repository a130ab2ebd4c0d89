import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from clearhead.cli.parser import Parser
from clearhead.cli.setting_options import add_settings, configure
from clearhead.config import PRESETS, Config, settings
from clearhead.errors import ConfigError


def configured(*arguments: str) -> Config:
    parser = Parser()
    parser.add_argument("--config")
    add_settings(parser, settings(), {"train.preset": ["--preset"]})
    return configure(parser.parse_args(arguments))


def toml(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(*arguments: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        configured(*arguments)
    return caught.value


def users(config: Config) -> set[str]:
    return {name for name in settings() if config.is_users(name)}


def test_without_options_everything_is_the_default_and_nothing_is_the_users() -> None:
    assert configured() == Config() and not configured().origins


def test_the_command_line_is_above_the_file_and_the_file_above_the_preset_and_the_preset_above_the_default(
    tmp_path: Path,
) -> None:
    file = toml(tmp_path, "[model]\nd_model = 96\nn_heads = 6\n[train]\nseed = 3")
    config = configured("--config", file, "--preset", "tiny", "--model.n_heads=12")
    assert (config.model.n_heads, config.model.d_model) == (12, 96)
    assert config.model.dropout == PRESETS["tiny"]["model.dropout"] != Config().model.dropout
    assert config.train.seed == 3
    assert users(config) == {"model.d_model", "model.n_heads", "train.seed", "train.preset"}


def test_a_preset_named_in_the_file_is_below_the_file_and_one_on_the_command_line_takes_its_place(
    tmp_path: Path,
) -> None:
    file = toml(tmp_path, '[train]\npreset = "nano"\n[model]\nd_ff = 300')
    config = configured("--config", file)
    assert (config.model.d_ff, config.model.d_model) == (300, 128)
    assert users(config) == {"train.preset", "model.d_ff"}
    config = configured("--config", file, "--preset=small")
    assert (config.model.d_ff, config.model.d_model, config.train.preset) == (300, 256, "small")


def test_values_of_the_layers_are_checked_together(tmp_path: Path) -> None:
    file = toml(tmp_path, "[model]\nn_heads = 12")  # does not divide the default width
    config = configured("--config", file, "--model.d_model=384")
    assert (config.model.n_heads, config.model.d_model) == (12, 384)


def test_equals_sign_and_space_spell_the_same() -> None:
    assert configured("--train.steps=300") == configured("--train.steps", "300")


def test_a_boolean_takes_a_value() -> None:
    assert "lowercase" in configured("--data.normalise=NFC,lowercase").data.normalise
    assert configured("--data.normalise", "none").data.normalise == ()


def test_files_of_a_setting_stand_after_it_and_may_hold_commas() -> None:
    assert configured("--data.valid", "a,b.en", "a,b.fr").data.valid == ("a,b.en", "a,b.fr")


def test_none_takes_the_preset_of_the_file_away() -> None:
    assert configured("--train.preset=none") == Config()


@given(data=st.data())
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_what_to_toml_writes_is_read_back_to_the_same_configuration(data: st.DataObject, tmp_path: Path) -> None:
    steps, beam = data.draw(st.integers(1, 10**9)), data.draw(st.integers(1, 99))
    name = data.draw(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9))
    preset = data.draw(st.sampled_from([*PRESETS]))
    config = configured(f"--train.steps={steps}", f"--decode.beam={beam}", f"--data.name={name}", "--preset", preset)
    assert configured("--config", toml(tmp_path, config.to_toml())) == config
    assert tomllib.loads(config.to_toml())["train"]["steps"] == steps


def test_an_unknown_preset_is_rejected_with_the_nearest(tmp_path: Path) -> None:
    for arguments in (["--preset", "smal"], ["--config", toml(tmp_path, '[train]\npreset = "smal"')]):
        error = refusal(*arguments)
        assert (error.name, error.value, error.fix) == ("train.preset", "smal", "did you mean 'small'?")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[train]\nstepz = 3", "train.stepz"),
        ("[trian]\nsteps = 3", "trian"),
        ("train = 3", "train"),
        ("[train]\npreset = 3", "train.preset"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--train.steps=3"], ["--preset=nano"]], ids=["alone", "flag", "preset"])
def test_what_a_file_has_wrong_is_rejected_with_its_name(tmp_path: Path, text: str, name: str, more: list[str]) -> None:
    if name == "train.preset" and more == ["--preset=nano"]:
        return  # the command line takes its place
    file = toml(tmp_path, text)
    error = refusal("--config", file, *more)
    assert error.name == name and error.what.startswith(f"{file} or the command line: ")


def test_a_file_that_is_not_toml_or_not_there_is_rejected(tmp_path: Path) -> None:
    large, pipe = tmp_path / "large", tmp_path / "pipe"
    large.write_bytes(b"#" * 1_000_001)
    os.mkfifo(pipe)
    nested = tmp_path / "nested"
    nested.write_text(f"a = {'[' * 100_000}")
    wrong = [toml(tmp_path, "steps 3"), tmp_path / "none.toml", tmp_path, large, pipe, nested, "/dev/zero"]
    for file in map(str, wrong):
        error = refusal("--config", file)
        assert error.name == file and error.expected


def test_a_value_of_the_wrong_type_is_rejected() -> None:
    assert refusal("--train.steps=many").what.startswith("the command line: ")
    assert refusal("--train.steps=0").name == "train.steps"


def test_a_file_may_have_names_of_an_earlier_version_next_to_options(tmp_path: Path) -> None:
    (path := tmp_path / "old.toml").write_text('[model]\nactivation = "silu"\n[train]\nema = 0.9\n')
    config = configured("--config", str(path), "--train.average=0.99")
    assert (config.model.feed_forward, config.train.average) == ("silu", 0.99)
