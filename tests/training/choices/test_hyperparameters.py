"""What is open is chosen by the data, and what is given stays."""

import dataclasses
import os
import time
from collections.abc import Iterator

import pytest
import torch

from clearhead.config import PRESETS, SHAPE, Config, ModelConfig, TrainConfig, preset
from clearhead.errors import ConfigError
from clearhead.training.choices import hyperparameters
from clearhead.training.choices.hyperparameters import (
    Chosen,
    choose_batch,
    choose_device,
    choose_machine,
    choose_model,
    choose_schedule,
    with_preset,
)


def names(choices: list[Chosen]) -> list[str]:
    return [choice.name for choice in choices]


# --- preset and vocabulary


@pytest.mark.parametrize(
    ("n_pairs", "name", "vocab_size"),
    [
        (1, "nano", 1000),
        (1_999, "nano", 1000),
        (2_000, "nano", 2000),
        (19_999, "nano", 2000),
        (20_000, "small", 4000),
        (162_469, "small", 4000),
        (500_000, "small", 16_000),
        (1_000_000, "base", 16_000),
        (36_000_000, "base", 32_000),
    ],
)
def test_more_pairs_get_a_larger_model_and_vocabulary(n_pairs: int, name: str, vocab_size: int) -> None:
    config, choices = choose_model(Config(), n_pairs)
    assert config.train.preset == name
    assert config == Config().override(preset(name) | {"data.vocab_size": vocab_size})
    assert [str(choice) for choice in choices] == [
        f"train.preset = {name}: for {n_pairs:,} pair{'s' * (n_pairs > 1)}",
        f"data.vocab_size = {vocab_size}: for {n_pairs:,} pair{'s' * (n_pairs > 1)}",
    ]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("n_pairs", [10, 10_000_000])
def test_a_preset_that_is_given_stays(name: str, n_pairs: int) -> None:
    asked = Config().override(preset(name) | {"data.vocab_size": 5000, "model.dropout": 0.25})
    assert choose_model(asked, n_pairs) == (asked, [])


@pytest.mark.parametrize(
    "changes", [{"model.dropout": 0.33}, {"train.warmup": 7}, {"model.d_model": 64}, {"model.n_encoder_layers": 3}]
)
def test_of_a_preset_that_is_chosen_a_given_setting_is_kept(changes: dict) -> None:
    config, choices = choose_model(Config().override(changes), 100)
    assert config == Config().override(preset("nano") | {"data.vocab_size": 1000} | changes)
    (name,) = changes
    assert str(choices[0]) == f"train.preset = nano: for 100 pairs, except {name}"


def test_a_whole_shape_that_is_given_is_no_presets() -> None:
    shape = dict(zip(SHAPE, (96, 3, 200, 1, 2)))
    config, choices = choose_model(Config().override(shape), 100)
    assert config == Config().override(shape | {"data.vocab_size": 1000})
    assert names(choices) == ["data.vocab_size"]


@pytest.mark.parametrize("kind", ["word", "character"])
def test_words_and_characters_are_all_taken(kind: str) -> None:
    config, choices = choose_model(Config().override({"data.tokenizer": kind}), 100)
    assert config.data.vocab_size is None and names(choices) == ["train.preset"]


def test_every_preset_gives_the_whole_shape() -> None:
    assert all(set(SHAPE) < set(PRESETS[name]) for name in PRESETS)


# --- what the user set


def test_a_shape_that_the_user_set_stays_even_if_it_is_the_default() -> None:
    asked = Config().override({"model.d_model": 512, "model.n_heads": 8})
    model = choose_model(asked, 100)[0].model
    assert (model.d_model, model.n_heads, model.d_ff) == (512, 8, PRESETS["nano"]["model.d_ff"])


def test_a_shape_without_origins_is_taken_as_a_whole() -> None:
    asked = Config(model=ModelConfig(d_ff=1024))  # the other parts are the defaults
    assert choose_model(asked, 100)[0].model == asked.model


def test_a_preset_that_a_config_only_names_brings_its_shape() -> None:
    bare = Config(train=TrainConfig(preset="nano"))
    model = choose_model(bare, 1_000_000)[0].model
    assert {f"model.{name}": value for name, value in vars(model).items()}.items() >= {
        (name, value) for name, value in PRESETS["nano"].items() if name.startswith("model.")
    }
    assert choose_model(bare.override({"model.d_model": 512}), 10)[0].model.d_model == 512


def test_an_unknown_preset_is_refused_wherever_it_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(preset="nanu")
    assert (caught.value.name, caught.value.value) == ("train.preset", "nanu")


def test_a_given_warm_up_is_left_as_it_is_also_where_the_preset_has_the_same() -> None:
    asked = Config().override({"train.preset": "nano", "train.warmup": 600, "train.steps": 1000})
    assert choose_schedule(asked, 100)[0].train.warmup == 600
    asked = Config().override({"train.preset": "nano", "train.steps": 1000})
    assert choose_schedule(asked, 100)[0].train.warmup == 333


@pytest.mark.parametrize(
    ("epochs", "accumulate", "steps"), [(20.0, 1, 2000), (0.5, 1, 50), (3.0, 4, 75), (0.001, 1, 1)]
)
def test_epochs_are_steps(epochs: float, accumulate: int, steps: int) -> None:
    asked = Config().override({"train.epochs": epochs, "train.accumulate": accumulate, "train.warmup": 0})
    assert choose_schedule(asked, 100)[0].train.steps == steps


# --- batches


@pytest.mark.parametrize(
    ("target_tokens", "max_len", "expected"),
    [(1, 250, 1024), (99_999, 250, 1024), (100_000, 250, 4096), (9, 3000, 3001)],
)
def test_little_data_get_small_batches_that_hold_the_longest_sentence(
    target_tokens: int, max_len: int, expected: int
) -> None:
    config, choices = choose_batch(Config().override({"data.max_len": max_len}), target_tokens, "target tokens")
    assert config.data.batch_tokens == expected
    assert [str(it) for it in choices] == [
        f"data.batch_tokens = {expected}: for {target_tokens:,} target tokens per epoch"
    ]


@pytest.mark.parametrize(
    ("device", "budget", "expected"), [("cpu", "", 4096), ("cpu", "1h", 2048), ("cuda", "1h", 4096)]
)
def test_in_a_short_time_on_a_cpu_smaller_batches_make_more_steps(device: str, budget: str, expected: int) -> None:
    config = Config().override({"train.device": device, "train.budget": budget})
    assert choose_batch(config, 10**6, "target tokens")[0].data.batch_tokens == expected


def test_a_batch_that_is_given_stays() -> None:
    asked = Config().override({"data.batch_tokens": 300})
    assert choose_batch(asked, 10**9, "tokens") == (asked, [])


# --- steps, warm-up, rate, intervals

OPEN = ["steps", "optimizer", "schedule", "warmup", "lr", "eval_every", "save_every"]


@pytest.mark.parametrize("name", [it for it in PRESETS if "train.warmup" in PRESETS[it]])
@pytest.mark.parametrize("batches", [1, 2, 30, 600, 20_000, 10**7])
def test_everything_open_is_chosen_and_the_warm_up_is_at_most_a_third(name: str, batches: int) -> None:
    config, choices = choose_schedule(Config().override(preset(name)), batches)
    train = config.train
    assert all(getattr(train, it) is not None for it in OPEN)
    assert 1000 <= train.steps <= 100_000
    if 1000 < train.steps < 100_000:
        assert train.steps == batches * (20 if config.model.d_model <= 128 else 12)
    assert train.warmup == min(PRESETS[name]["train.warmup"], train.steps // 3)
    assert train.lr == pytest.approx((config.model.d_model * max(train.warmup, 400)) ** -0.5, abs=1e-6)
    assert train.steps / 20 - 1 < train.eval_every == train.save_every <= train.steps / 20
    assert names(choices) == [f"train.{it}" for it in OPEN]
    assert choose_schedule(config, batches) == (config, choose_schedule(config, batches)[1])


@pytest.mark.parametrize(("steps", "warmup"), [(5, 1), (160, 20), (5000, 300)])
def test_muon_over_norms_that_stand_before_has_a_short_warm_up_and_a_high_rate(steps: int, warmup: int) -> None:
    asked = Config().override({"train.preset": "nano", "model.pre_norm": True, "train.steps": steps})
    train = choose_schedule(asked, 100)[0].train
    assert (train.warmup, train.lr) == (warmup, pytest.approx(0.08 / 128**0.5, abs=1e-6))
    adam = choose_schedule(asked.override({"train.optimizer": "adam"}), 100)[0].train
    assert adam.warmup == min(600, steps // 3) and adam.lr < train.lr


LANGUAGE_MODEL = {"train.preset": "nano", "train.task": "generate", "model.pre_norm": True}


def test_a_language_model_learns_twice_as_fast() -> None:
    train = choose_schedule(Config().override(LANGUAGE_MODEL), 100)[0].train
    assert train.lr == pytest.approx(0.16 / 128**0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("n_tokens", "expected"), [(99_999, 1024), (100_000, 2048), (9_999_999, 2048), (10_000_000, 4096)]
)
def test_a_language_model_gets_smaller_batches(n_tokens: int, expected: int) -> None:
    config, _ = choose_batch(Config().override(LANGUAGE_MODEL), n_tokens, "tokens")
    assert config.data.batch_tokens == expected


@pytest.mark.parametrize(
    ("changes", "dropout"),
    [
        ({"train.steps": 499}, 0.0),
        ({"train.steps": 500}, 0.1),
        ({"train.steps": 1, "model.dropout": 0.2}, 0.2),
        ({"train.steps": 1, "train.init_from": "models/a"}, 0.1),
    ],
)
def test_a_language_model_that_sees_its_text_a_few_times_drops_nothing(changes: dict, dropout: float) -> None:
    asked = Config().override({"train.task": "generate", "model.pre_norm": True} | changes)
    config, choices = choose_schedule(with_preset(asked, "nano", "data"), 100)
    assert config.model.dropout == dropout
    said = [str(it) for it in choices if it.name == "model.dropout"]
    assert said == (["model.dropout = 0.0: fewer than 5 epochs don't overfit"] if not dropout else [])


def test_trained_weights_move_by_a_fifth_of_the_rate() -> None:
    asked = with_preset(Config(), "small", "data")
    random, _ = choose_schedule(asked, 600)
    trained, choices = choose_schedule(asked.override({"train.init_from": "models/a"}), 600)
    assert trained.train.lr == pytest.approx(random.train.lr / 5, rel=1e-3)
    assert "a fifth of the rate for random weights" in str(next(it for it in choices if it.name == "train.lr"))


LABELLED = {"model.topology": "encoder-only", "model.head": "class", "model.n_classes": 2, "model.pre_norm": True}


@pytest.mark.parametrize(("tokens", "batch"), [(99_999, 513), (399_999, 1024), (100_000_000, 2048)])
def test_texts_with_labels_come_in_smaller_batches(tokens: int, batch: int) -> None:
    config = Config().override(LABELLED | {"data.max_len": 512})
    assert choose_batch(config, tokens, "tokens")[0].data.batch_tokens == batch


def test_labels_hang_on_whole_words_and_are_soon_learnt() -> None:
    asked = Config().override(LABELLED)
    subwords = [choose_model(asked, n_texts)[0].data.vocab_size for n_texts in (9_999, 10_000)]
    assert subwords == [4000, 8000]
    presets = [choose_model(asked, n_texts)[0].train.preset for n_texts in (199_999, 200_000)]
    assert presets == ["nano", "small"]
    asked = asked.override({"data.batch_tokens": 1000})
    warm, other = asked.override({"train.warm_start": "denoise"}), {"model.head": "span", "model.n_classes": 0}
    few, many = (choose_schedule(asked, batches)[0].train for batches in (399, 2000))
    assert (few.steps, many.steps) == (1197, 6000)
    few_warm, many_warm = (choose_schedule(warm, batches)[0].train.lr for batches in (399, 2000))
    assert many.lr == many_warm < few_warm < few.lr
    assert choose_schedule(asked.override(other), 2000)[0].train.lr == few.lr, "of labels alone"


def test_after_a_warm_start_the_rate_is_that_of_random_weights() -> None:
    asked = Config().override(preset("small"))
    random, warm = (asked.override({"train.warm_start": it}) for it in ("", "denoise"))
    assert choose_schedule(random, 600)[0].train.lr == choose_schedule(warm, 600)[0].train.lr


@pytest.mark.parametrize("steps", [1, 2, 10, 59, 300, 5000])
def test_a_presets_warm_up_is_shortened_where_training_is_short(steps: int) -> None:
    asked = Config().override(preset("nano") | {"train.steps": steps})
    config, choices = choose_schedule(asked, 10)
    assert config.train.steps == steps
    assert config.train.warmup == min(600, steps // 3)
    (said,) = (str(it) for it in choices if it.name == "train.warmup")
    usual = "the preset's" if steps == 5000 else "a third of the steps, instead of the preset's 600"
    assert said == f"train.warmup = {config.train.warmup}: {usual}"


@pytest.mark.parametrize(
    "given",
    [
        {"warmup": 150, "steps": 300},
        {"warmup": 0, "steps": 300},
        {"warmup": 300, "steps": 300},
        {"lr": 0.7},
        {"schedule": "paper"},
        {"optimizer": "adam"},
        {"eval_every": 17},
        {"save_every": 13},
        {"steps": 77},
        {"eval_every": 10**6},
    ],
    ids=str,
)
def test_what_is_given_of_the_schedule_stays(given: dict) -> None:
    asked = Config().override(preset("nano") | {f"train.{name}": value for name, value in given.items()})
    config, choices = choose_schedule(asked, 50)
    assert {name: getattr(config.train, name) for name in given} == given
    assert names(choices) == [f"train.{name}" for name in OPEN if name not in given]
    untouched = [it.name for it in dataclasses.fields(TrainConfig) if it.name not in OPEN]
    assert all(getattr(config.train, name) == getattr(asked.train, name) for name in untouched)


def test_checkpoints_follow_the_evaluations_where_only_those_are_given() -> None:
    config, _ = choose_schedule(Config().override({"train.eval_every": 17}), 50)
    assert config.train.save_every == 17


def test_a_given_warm_up_that_is_longer_than_training_is_refused() -> None:
    asked = Config().override({"train.steps": 300, "train.warmup": 301})
    with pytest.raises(ConfigError) as caught:
        choose_schedule(asked, 10)
    assert (caught.value.name, caught.value.value) == ("train.warmup", 301)


def test_without_a_preset_the_warm_up_is_a_thousand_steps() -> None:
    config, _ = choose_schedule(Config().override({"train.steps": 9000}), 10)
    assert config.train.warmup == 1000


# --- the machine


@pytest.fixture(autouse=True)
def _nobody_asks_for_threads(monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.parametrize(("asked", "threads"), [("2", 2), ("3,1", 3), ("0", None), ("many", None), ("", None)])
def test_as_many_threads_are_used_as_the_environment_asks_for(monkeypatch, asked: str, threads: int | None) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {*range(7)}, raising=False)
    config, choices = choose_machine(Config().override({"train.device": "cpu"}))
    assert config.train.threads == (threads or 7)
    assert ("set by OMP_NUM_THREADS" in choices[0].why) == bool(threads)


def test_every_core_of_the_process_is_used_and_it_is_said(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3, 5}, raising=False)
    config, choices = choose_machine(Config().override({"train.device": "cpu"}))
    assert config.train.threads == 3
    assert "train.threads = 3: every core available to this process" in [str(it) for it in choices]


def test_where_the_system_does_not_tell_which_cores_all_are_counted(monkeypatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, threads in ((4, 4), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert choose_machine(Config())[0].train.threads == threads


@pytest.fixture
def untried() -> Iterator[None]:
    """As in a process that has not tried how fast products are, and leaves no answer to the next one."""
    hyperparameters._gains_by_bf16.cache_clear()
    yield
    hyperparameters._gains_by_bf16.cache_clear()


@pytest.mark.parametrize(
    ("avx512", "amx", "bf16_takes", "precision", "why"),
    [
        (True, False, 0.5, "bf16", "faster on this processor"),
        (False, True, 0.5, "bf16", "faster on this processor"),
        (True, False, 0.9, "fp32", "bf16 isn't faster on this processor"),  # what goes to and fro would cost more
        (True, True, 2.0, "fp32", "bf16 isn't faster on this processor"),
        (False, False, 0.5, "fp32", "this processor has no bf16 products"),
    ],
)
def test_bf16_is_chosen_where_the_processor_multiplies_faster_in_it(
    monkeypatch, untried, avx512, amx, bf16_takes, precision, why
) -> None:
    clock = [0.0]

    def linear(x: torch.Tensor, weight: torch.Tensor) -> None:
        clock[0] += bf16_takes if x.dtype == weight.dtype == torch.bfloat16 else 1.0

    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    config, choices = choose_machine(Config().override({"train.device": "cpu"}))
    assert config.train.precision == precision
    assert str(choices[-1]) == f"train.precision = {precision}: {why}"


def test_bf16_is_tried_once_and_with_the_threads_of_training(monkeypatch, untried) -> None:
    tried: list[int] = []
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *_: tried.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    asked = Config().override({"train.device": "cpu", "train.threads": before + 1})
    first, count = choose_machine(asked), len(tried)
    assert {*tried} == {before + 1} and torch.get_num_threads() == before
    assert choose_machine(asked) == first and len(tried) == count


def test_what_is_given_of_the_machine_stays() -> None:
    asked = Config().override({"train.device": "cpu", "train.threads": 5, "train.precision": "bf16"})
    assert choose_machine(asked) == (asked, [])


@pytest.mark.parametrize("asked", ["cuda:99", "gpu", "", "meta:x", "meta"])
def test_a_device_that_cannot_be_used_is_refused(asked: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_device(asked)
    assert (caught.value.name, caught.value.value) == ("train.device", asked)


def test_auto_is_a_device_that_can_be_used() -> None:
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == "cpu"
