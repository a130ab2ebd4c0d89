import pytest

from clearhead.config import TASKS, Config
from clearhead.errors import ConfigError
from clearhead.tasks.base import example_of
from clearhead.tasks.denoise import denoising
from clearhead.tasks.registry import task_named, task_of
from clearhead.tokenization.source_and_target import train_tokenizers


@pytest.mark.parametrize(
    ("task", "name", "value", "expected"),
    [
        ("translate", "model.topology", "decoder-only", "'encoder-decoder'"),
        ("classify", "data.joint", False, "true"),
        ("generate", "data.reverse", True, ""),
        ("answer", "decode.alpha", 2.0, ""),
        ("translate", "train.best", "f1", "loss, token_accuracy, bleu, chrf, exact_match or newest"),
        ("generate", "data.subword_dropout", 0.1, "0"),
        ("answer", "train.watch", "who", ""),
        ("summarize", "train.balance", True, "false"),
        ("summarize", "train.r_drop", 2.0, "0"),
    ],
)
def test_a_setting_that_does_not_fit_a_task_is_an_error(task: str, name: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        task_named(task).settle(Config().override({name: value}))
    error = caught.value
    assert (error.name, error.value, error.expected) == (name, value, expected) and error.expected + error.fix
    assert task in error.what


@pytest.mark.parametrize("task", ["translate", "classify", "generate", "answer"])
def test_a_batch_holds_the_longest_example_and_its_end_token(task: str) -> None:
    task_named(task).settle(Config().override({"data.batch_tokens": 13, "data.max_len": 12}))
    with pytest.raises(ConfigError) as caught:
        task_named(task).settle(Config().override({"data.batch_tokens": 12, "data.max_len": 12}))
    error = caught.value
    assert (error.name, error.value, error.expected) == ("data.batch_tokens", 12, "13 or more")


@pytest.mark.parametrize(
    ("task", "modality", "name", "value"),
    [
        ("classify", "image", "model.augment", ("speed=0.2",)),
        ("classify", "image", "data.normalise", ("NFC",)),
        ("classify", "image", "data.reverse", True),
        ("classify", "image", "model.front", "frames"),
        ("classify", "image", "train.warm_start", "denoise"),
        ("classify", "audio", "model.augment", ("speed=0.1", "shift=3")),
        ("classify", "audio", "data.normalise", ()),
        ("transcribe", "audio", "model.image_size", 8),
        ("transcribe", "audio", "train.warm_start", "denoise"),
        ("classify", "text", "model.front", "patches"),
        ("classify", "text", "model.n_mels", 80),
        ("translate", "text", "model.augment", ("flip",)),
    ],
)
def test_a_setting_of_another_kind_of_data_is_an_error(task: str, modality: str, name: str, value: object) -> None:
    config = Config().override({"train.task": task, "data.modality": modality})
    with pytest.raises(ConfigError) as caught:
        task_of(config).settle(config.override({name: value}))
    assert (caught.value.name, caught.value.value) == (name, value) and caught.value.fix


def test_a_task_that_cannot_read_the_data_names_what_it_reads() -> None:
    with pytest.raises(ConfigError) as caught:
        task_of(Config().override({"train.task": "transcribe", "data.modality": "image"}))
    assert (caught.value.name, caught.value.expected) == ("train.task", "audio") and "classify" in caught.value.fix


def test_a_front_end_uses_its_own_settings() -> None:
    values = {"train.task": "classify", "data.modality": "image", "model.augment": ("shift=3", "flip")}
    assert task_of(config := Config().override(values)).settle(config).model.augmentation["shift"] == 3
    own = Config().override(
        {"train.task": "classify", "model.front": "own.parts:Front", "model.augment": ("speed=0.2",)}
    )
    assert task_of(own).settle(own).model.augmentation["speed"] == 0.2


def test_patience_needs_a_score_to_watch() -> None:
    with pytest.raises(ConfigError) as caught:
        task_named("classify").settle(Config().override({"train.patience": 3}))
    assert (caught.value.name, caught.value.value) == ("train.patience", 3) and "accuracy" in caught.value.expected


def test_a_default_of_a_task_gives_way_to_the_user_and_what_it_requires_stays() -> None:
    settled = task_named("summarize").settle(Config().override({"data.max_len": 60, "decode.alpha": 0.5}))
    assert (settled.data.max_len, settled.decode.alpha, settled.decode.no_repeat_ngram) == (60, 0.5, 3)
    assert settled.train.task == "summarize" and settled.model.topology == "encoder-decoder"
    assert settled == task_named("summarize").settle(settled), "settled once, nothing changes"


def test_a_task_that_needs_more_than_a_text_says_so() -> None:
    answering = task_named("answer")
    config = answering.settle(Config())
    task = answering(train_tokenizers(["a b"], (), config.override({"data.tokenizer": "word"}).data), config)
    for use in (task.answers, task.explain):
        with pytest.raises(ConfigError, match="needs more than a text"):
            use(None, "a b", config.decode)  # type: ignore[operator]


def test_an_example_shows_how_to_use_a_model() -> None:
    assert {example_of(task_named(name), "m").split()[1] for name in TASKS} == {*TASKS}


def test_models_are_compared_by_the_first_score_and_a_task_without_one_says_so() -> None:
    assert task_named("summarize").main_score() == "rougeL"
    with pytest.raises(ConfigError) as caught:
        denoising(task_named("translate")).main_score()
    assert (caught.value.name, caught.value.value) == ("train.task", "translate")
