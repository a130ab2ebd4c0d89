"""Every setting is given values of every wrong kind: each is either valid, or an error that says what was expected."""

from typing import Any

import numpy as np
import pytest

from clearhead import Config, ConfigError
from clearhead.config.config import SECTIONS, read_setting
from clearhead.config.config import settings as all_settings

HUGE = "9" * 400
TEXTS = ["", " ", "x", "none", "-1", "0", "0.5", "1.5", "1e9", "1e30", "-1e400", "nan", "inf", "-inf", HUGE, "9" * 5000,
         "true", "\u0660", "1_0", "a,b", ",", ":", "a:b", "linear:0", "linear:nan", "llama3:8:4:1:9", "1h", f"{HUGE}GB",
         f"{HUGE}h", "é\n", "\x1b[2J"]  # fmt: skip
VALUES = [None, True, -1, 0, 1, 2**31, 2**63, -(2**64), 10**400, 10**5000, 0.5, -0.5, 1e308, float("nan"), float("inf"),
          1j, b"x", "\0", "\ud800", "\udc80", [], [1], ["\0"], [None], {}, {"a": 1}, {"x"}, object(), int, np.int64(3),
          np.float32("nan"), np.float64(2), np.bool_(True), np.zeros(3), np.zeros(())]  # fmt: skip


def check(call: Any, *arguments: Any, **named: Any) -> None:
    """Call something that may raise a ConfigError with what, expected and name, which can be spelled."""
    try:
        call(*arguments, **named)
    except ConfigError as error:
        assert error.what and error.expected and error.name and len(str(error)) < 1500, error.__dict__


@pytest.mark.parametrize("name", all_settings())
def test_a_wrong_value_of_a_setting_is_an_error_that_says_what_was_expected(name: str) -> None:
    section, key = name.split(".")
    for value in TEXTS:  # as on the command line
        check(lambda text: SECTIONS[section](**{key: read_setting(name, text, "")}), value)
    for value in VALUES:
        check(SECTIONS[section], **{key: value})


@pytest.mark.parametrize("name", ["model", "data", "train", "decode", "origins"])
def test_a_section_that_is_no_section_is_rejected(name: str) -> None:
    for value in VALUES:
        check(Config, **{name: value})
        check(Config.from_dict, {name: value})


def test_a_value_of_another_type_is_not_converted_in_a_section() -> None:
    for name, setting in all_settings().items():
        section, key = name.split(".")
        for value in ("7", 7, 0.5, True, [7], b"7"):
            if not isinstance(setting.default, str | bool | int | float) or isinstance(setting.default, type(value)):
                continue
            if isinstance(setting.default, float) and type(value) is int:
                continue
            with pytest.raises(ConfigError) as caught:
                SECTIONS[section](**{key: value})
            assert (caught.value.name, caught.value.value) == (name, value)


def test_lists_and_numbers_of_numpy_have_the_declared_types() -> None:
    config = Config(data=SECTIONS["data"](train=["a.tsv"]), model=SECTIONS["model"](d_model=np.int64(8), n_heads=2))
    assert config.data.train == ("a.tsv",) and type(config.model.d_model) is int
