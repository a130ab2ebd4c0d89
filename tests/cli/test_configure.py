import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from clearhead.cli.configure import configure
from clearhead.cli.parser import Parser, add_settings
from clearhead.config import PRESETS, Config, settings
from clearhead.errors import ConfigError


def configured(*arguments: str) -> tuple[Config, set[str]]:
    parser = Parser()
    parser.add_argument("--config")
    add_settings(parser, settings(), {"train.preset": ["--preset"]})
    return configure(parser.parse_args(arguments))


def toml(folder: Path, text: str) -> str:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(*arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(*arguments)
    return str(caught.value)


def test_without_options_everything_is_the_default_and_nothing_is_given() -> None:
    assert configured() == (Config(), set())


def test_the_command_line_is_above_the_file_and_the_file_above_the_preset_and_the_preset_above_the_default(
    tmp_path: Path,
) -> None:
    file = toml(tmp_path, "[model]\nd_model = 96\nn_heads = 6\n[train]\nseed = 3")
    config, given = configured("--config", file, "--preset", "tiny", "--model.n_heads=12")
    assert (config.model.n_heads, config.model.d_model) == (12, 96)
    assert config.model.dropout == PRESETS["tiny"]["model.dropout"] != Config().model.dropout
    assert config.train.seed == 3
    assert given == {"model.d_model", "model.n_heads", "train.seed", "train.preset"}


def test_a_preset_named_in_the_file_is_below_the_file_and_one_on_the_command_line_takes_its_place(
    tmp_path: Path,
) -> None:
    file = toml(tmp_path, '[train]\npreset = "nano"\n[model]\nd_ff = 300')
    config, given = configured("--config", file)
    assert (config.model.d_ff, config.model.d_model) == (300, 128)
    assert given == {"train.preset", "model.d_ff"}
    config, _ = configured("--config", file, "--preset=small")
    assert (config.model.d_ff, config.model.d_model, config.train.preset) == (300, 256, "small")


def test_values_of_the_layers_are_checked_together(tmp_path: Path) -> None:
    file = toml(tmp_path, "[model]\nn_heads = 12")  # does not divide the default width
    config, _ = configured("--config", file, "--model.d_model=384")
    assert (config.model.n_heads, config.model.d_model) == (12, 384)


def test_equals_sign_and_space_spell_the_same() -> None:
    assert configured("--train.steps=300") == configured("--train.steps", "300")


def test_a_boolean_takes_a_value() -> None:
    assert configured("--data.lowercase=true")[0].data.lowercase
    assert not configured("--data.whitespace", "no")[0].data.whitespace


def test_files_of_a_setting_stand_after_it_and_may_hold_commas() -> None:
    assert configured("--data.valid", "a,b.en", "a,b.fr")[0].data.valid == ("a,b.en", "a,b.fr")


def test_none_takes_the_preset_of_the_file_away() -> None:
    assert configured("--train.preset=none")[0] == Config()


@given(data=st.data())
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_what_to_toml_writes_is_read_back_to_the_same_configuration(data: st.DataObject, tmp_path: Path) -> None:
    steps, beam = data.draw(st.integers(1, 10**9)), data.draw(st.integers(1, 99))
    name = data.draw(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9))
    preset = data.draw(st.sampled_from([*PRESETS]))
    config = configured(f"--train.steps={steps}", f"--decode.beam={beam}", f"--data.name={name}", "--preset", preset)[0]
    assert configured("--config", toml(tmp_path, config.to_toml()))[0] == config
    assert tomllib.loads(config.to_toml())["train"]["steps"] == steps


def test_an_unknown_preset_is_refused_with_the_nearest(tmp_path: Path) -> None:
    expected = "unknown preset 'smal'; there are nano, mini, tiny, small, base, big; did you mean 'small'?"
    assert refusal("--preset", "smal") == expected
    assert refusal("--config", toml(tmp_path, '[train]\npreset = "smal"')) == expected


def test_what_a_file_has_wrong_is_said_with_its_name(tmp_path: Path) -> None:
    file = toml(tmp_path, "[train]\nstepz = 3")
    expected = f"{file} or the command line names an unknown setting 'train.stepz'; did you mean 'train.steps'?"
    assert refusal("--config", file) == expected
    assert "unknown section [trian]; did you mean 'train'?" in refusal("--config", toml(tmp_path, "[trian]\nsteps = 3"))
    assert "is not TOML" in refusal("--config", toml(tmp_path, "steps 3"))
    assert "cannot read the configuration" in refusal("--config", str(tmp_path / "none.toml"))


@pytest.mark.parametrize("more", [[], ["--train.steps=3"], ["--preset=nano"]], ids=["alone", "flag", "preset"])
def test_a_section_that_is_a_value_is_refused_whatever_stands_above_and_below(tmp_path: Path, more: list[str]) -> None:
    assert "train = 3 is no section" in refusal("--config", toml(tmp_path, "train = 3"), *more)


def test_a_preset_that_is_no_text_is_refused(tmp_path: Path) -> None:
    assert "train.preset = 3 is not a text" in refusal("--config", toml(tmp_path, "[train]\npreset = 3"))


def test_a_value_of_the_wrong_type_is_refused() -> None:
    assert refusal("--train.steps=many") == "the command line: train.steps = 'many' is not a whole number"
    assert "train.steps = 0 cannot be used; expected at least 1" in refusal("--train.steps=0")
