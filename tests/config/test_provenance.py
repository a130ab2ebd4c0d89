"""Where each value came from: every source sets what no stronger one has set, and files remember it."""

import json
import pickle
from itertools import combinations
from typing import get_args

import pytest

from clearhead import Config, ConfigError, ModelConfig, TrainConfig
from clearhead.config import PRESETS, SHAPE, preset
from clearhead.config.presets import Origin, may_replace, render_sources

ORIGINS = get_args(Origin)


@pytest.mark.parametrize(("weak", "strong"), [*combinations(ORIGINS, 2)])
def test_a_weaker_source_never_replaces_what_a_stronger_one_set(weak: Origin, strong: Origin) -> None:
    if weak == "default":
        assert not may_replace(weak, strong)
        return
    both = {"train.seed": 3, "train.clip": 0.5}
    config = Config().assign({"train.seed": 1}, strong).choose(both, weak)
    assert (config.train.seed, config.origin("train.seed")) == (1, strong)
    assert (config.train.clip, config.origin("train.clip")) == (0.5, weak)
    config = Config().assign({"train.seed": 1}, weak).choose(both, strong)
    assert (config.train.seed, config.origin("train.seed")) == (3, strong)
    assert Config().assign({"train.seed": 1}, strong).assign(both, weak).origin("train.seed") == weak


def test_an_open_choice_is_open_even_if_the_user_says_none() -> None:
    config = Config().override({"train.steps": "none"})
    assert config.choose({"train.steps": 7}, "data").train.steps == 7


def test_a_task_and_a_preset_set_their_values_in_their_own_name() -> None:
    config = Config().override({"train.task": "classify", "train.preset": "nano", "model.d_ff": 96, "train.steps": 5})
    assert config.by_origin() == {
        "user": {"model.d_ff": 96, "train.task": "classify", "train.preset": "nano", "train.steps": 5},
        "task": {"model.topology": "encoder-only", "model.head": "class"},
        "preset": {name: value for name, value in PRESETS["nano"].items() if name != "model.d_ff"},
    }


def test_a_preset_that_is_passed_by_value_is_still_the_presets_but_a_value_that_the_user_repeats_is_the_users() -> None:
    by_value = Config().override(preset("nano") | {"train.seed": 3})
    assert by_value.origins == Config().override({"train.preset": "nano", "train.seed": 3}).origins
    assert Config().override({"train.preset": "nano", "train.warmup": 600}).is_users("train.warmup")


def test_a_preset_named_later_leaves_what_the_user_set_earlier() -> None:
    config = Config().override({"model.dropout": 0.25}).override({"train.preset": "nano"})
    assert (config.model.dropout, config.model.d_model) == (0.25, 128)


def test_a_value_that_nobody_accounts_for_is_the_users() -> None:
    assert Config(train=TrainConfig(lr=0.1, seed=0)).by_origin() == {"user": {"train.lr": 0.1}}
    shape = Config(model=ModelConfig(d_ff=1024))
    assert {name for name in SHAPE if shape.is_users(name)} == set(SHAPE), "a shape is one thing"
    assert Config(train=TrainConfig(preset="nano")).by_origin() == {"user": {"train.preset": "nano"}}


def test_sizes_that_follow_from_the_data_are_nobodys_wish() -> None:
    config = Config().override({"model.src_vocab_size": 9, "model.tgt_vocab_size": 9, "data.unanswerable": True})
    assert {*config.origins.values()} == {"data"}


def test_a_record_keeps_values_and_origins() -> None:
    config = Config().override({"train.preset": "nano", "train.seed": 3}).assign({"train.steps": 9}, "budget")
    written = json.dumps(config.to_record())
    for copy in (Config.from_record(json.loads(written), source="f"), pickle.loads(pickle.dumps(config))):
        assert copy == config and copy.origins == config.origins


def test_a_record_without_origins_is_read_and_its_values_are_of_unknown_origin() -> None:
    config = Config.from_record({"train": {"steps": 9, "epochs": 2.0, "seed": 0}}, source="config.json")
    assert config.by_origin() == {"unknown": {"train.steps": 9, "train.epochs": 2.0}}
    assert config.choose({"train.steps": 3}, "task").train.steps == 9


def test_origins_that_a_later_version_may_have_are_passed_over() -> None:
    record = {"train": {"seed": 3}, "origins": {"train.seed": "oracle", "train.new": "user", "train.steps": ["x"]}}
    assert Config.from_record(record, source="f").by_origin() == {"user": {"train.seed": 3}}
    with pytest.raises(ConfigError):
        Config.from_record({"origins": 3}, source="f")


def test_a_toml_file_names_the_source_of_every_value_and_only_the_users_are_active() -> None:
    config = Config().override({"train.preset": "nano", "train.seed": 3, "train.task": "generate"})
    lines = config.to_toml().splitlines()
    assert "seed = 3" in lines and 'preset = "nano"' in lines
    assert "# d_model = 128  # preset nano" in lines
    assert '# topology = "decoder-only"  # task' in lines and "# beam = 4  # default" in lines


def test_the_sources_are_shown_as_a_table() -> None:
    config = (
        Config().override({"train.seed": 3, "data.train": ["a.en", "a.fr"]}).assign({"model.pre_norm": True}, "task")
    )
    assert render_sources(config.by_origin()).splitlines() == [
        "you             data.train=a.en,a.fr, train.seed=3",
        "task            model.pre_norm=true",
    ]
