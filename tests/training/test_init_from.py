"""Training that begins with the weights and the tokenizer of a trained model."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.config import Config
from clearhead.errors import ConfigError, ModelError
from clearhead.folder.model_folder import load_model_folder, weights_from_bytes, weights_to_bytes
from clearhead.model.transformer import build
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers
from clearhead.training.init_from import InitFrom
from clearhead.training.signals import StoppedError
from tests.builders import make_encoder_folder, quiet


@pytest.fixture
def trained(toy) -> Path:
    return train(toy.config(), toy.folder / "first", say=quiet)


def fine_tuned(
    toy, trained: Path, changes: dict[str, Any] | None = None, name: str = "second", say=quiet, **options: Any
) -> Path:
    """Begun from the model, on data of other sentences."""
    values = {"data.train": (str(toy.pairs(30)),), "train.init_from": str(trained), "train.lr": 1e-9, "train.warmup": 0}
    values |= {"train.steps": 3, "train.threads": 1, "train.precision": "fp32", "data.batch_tokens": 300}
    values |= {"train.eval_every": 3, "train.save_every": 1, **(changes or {})}
    return train(Config().override(values), toy.folder / name, say=say, **options)


def test_it_begins_where_the_model_ended_with_its_tokenizer_and_shape(toy, trained: Path) -> None:
    first, second = load_model_folder(trained), load_model_folder(fine_tuned(toy, trained))
    assert second.tokenizer == first.tokenizer
    assert second.config.model == first.config.model
    assert second.config.data.tokenizer == "word" and second.config.train.init_from == str(trained)
    for name, weight in first.weights.items():
        torch.testing.assert_close(second.weights[name], weight, rtol=0, atol=1e-6)


def test_what_it_learns_is_the_new_data(toy, trained: Path) -> None:
    losses: list[float] = []
    changes = {"train.lr": 1e-2, "train.steps": 30, "train.eval_every": 30}
    fine_tuned(toy, trained, changes, on_step=lambda record: losses.append(record["loss"]))
    assert losses[-1] < 0.9 * losses[0]


def test_only_dropout_may_be_another(toy, trained: Path) -> None:
    model = load(fine_tuned(toy, trained, {"model.dropout": 0.45, "model.attention_dropout": 0.05})).config.model
    assert (model.dropout, model.attention_dropout, model.activation_dropout) == (0.45, 0.05, None)
    for name, value in (("model.d_model", 64), ("data.normalise", ("NFC", "lowercase", "whitespace"))):
        with pytest.raises(ConfigError) as caught:
            fine_tuned(toy, trained, {name: value}, "third")
        assert (caught.value.name, caught.value.value) == (name, value)
    assert not (toy.folder / "third").exists()


@pytest.mark.parametrize(
    ("name", "value"), [("data.vocab_size", 500), ("data.tokenizer", "bpe"), ("data.joint", False)]
)
def test_another_vocabulary_is_rejected(toy, trained: Path, name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        fine_tuned(toy, trained, {name: value})
    assert (caught.value.name, caught.value.value) == (name, value) and str(trained) in caught.value.what
    assert not (toy.folder / "second").exists()


def test_its_own_vocabulary_may_be_named_again(toy, trained: Path) -> None:
    first = load_model_folder(trained)
    same = {f"data.{name}": getattr(first.config.data, name) for name in ("vocab_size", "tokenizer", "joint")}
    assert load_model_folder(fine_tuned(toy, trained, same)).tokenizer == first.tokenizer


def test_pairs_with_words_that_the_model_does_not_know_are_counted_and_shown(toy, trained: Path, said) -> None:
    path = toy.folder / "new.tsv"
    path.write_text(toy.pairs(30).read_text() + "seven one\tone eight\n")
    fine_tuned(toy, trained, {"data.train": (str(path),), "data.split": 0}, say=said.append)
    assert (
        "  found 1: pairs with words or characters missing from the vocabulary, which become <unk>\n"
        '    line 31: "seven, eight"'
    ) in said
    said.clear()
    fine_tuned(toy, trained, name="third", say=said.append)
    assert not any("missing from the vocabulary" in line for line in said)


def test_another_direction_of_reading_is_said(toy, trained: Path, said) -> None:
    note = f"{trained} was trained with data.reverse=false, but this run has data.reverse=true"
    fine_tuned(toy, trained, say=said.append)
    assert note not in said
    fine_tuned(toy, trained, {"data.reverse": True}, "third", say=said.append)
    assert note in said


def test_a_folder_that_is_no_model_is_refused_before_anything_is_made(toy) -> None:
    with pytest.raises(ModelError, match="nowhere doesn't exist"):
        fine_tuned(toy, toy.folder / "nowhere")
    assert not (toy.folder / "second").exists()


def test_what_was_begun_so_resumes_exactly_without_the_model(toy, trained: Path) -> None:
    changes = {"train.lr": 1e-3, "train.steps": 6}
    expected = load_model_folder(fine_tuned(toy, trained, changes, "whole")).weights

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 2:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        fine_tuned(toy, trained, changes, "parts", on_step=stop)
    shutil.rmtree(trained)
    found = load_model_folder(fine_tuned(toy, trained, changes, "parts", resume=True)).weights
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


SMALL = {"model.d_model": 8, "model.n_heads": 2, "model.d_ff": 8, "model.n_encoder_layers": 1, "train.task": "classify"}
ENCODER = {**SMALL, "model.topology": "encoder-only", "model.src_vocab_size": 9, "model.head": "token"}


def of_another_head(changes: dict[str, Any] | None = None) -> InitFrom:
    """An encoder that learnt to find hidden tokens, as it is read from a file."""
    config = Config().override({**ENCODER, **(changes or {})})
    torch.manual_seed(1)
    weights = weights_from_bytes(Path("w"), weights_to_bytes(build(config.model).state_dict()))
    return InitFrom(Path("old"), config, Tokenizers(*[train_tokenizers(["a b"], [], config.data).source] * 2), weights)


def test_another_head_is_new_and_all_below_it_is_taken() -> None:
    start = of_another_head()
    config = start.config.override({"model.head": "class", "model.n_classes": 3})
    model = build(config.model)
    assert start.about_new(model, start.give(model, config)) == "the head is new: 27 parameters"  # (8 + 1) * 3
    weights = model.state_dict()
    assert all(torch.equal(weights[name], start.weights[name]) for name in weights if name.startswith("encoder."))


def test_what_a_model_ties_to_weights_that_are_taken_is_not_new() -> None:
    start = of_another_head({"model.head": "class", "model.n_classes": 3})
    config = start.config.override({"model.n_classes": 0}).override({"model.head": "token"})
    model = build(config.model)
    assert start.give(model, config) == []  # all of the head is the embedding
    torch.testing.assert_close(model.state_dict()["head.projection.weight"], start.weights["encoder.embedding.weight"])


def test_parts_that_only_the_new_model_has_are_named() -> None:
    start = of_another_head()
    config = start.config.override({"model.head": "span", "model.n_token_types": 2})
    model = build(config.model)
    assert start.about_new(model, start.give(model, config)) == "encoder.types and the head are new: 34 parameters"


def test_separators_of_questions_stay_with_questions() -> None:
    start = of_another_head({"model.head": "span", "train.task": "answer", "model.n_separators": 2})
    asked = Config().override({"train.task": "classify", "model.topology": "encoder-only", "model.head": "class"})
    assert start.configure(asked).model.n_separators == 1


def test_what_belongs_to_the_task_is_not_that_of_another_head() -> None:
    start = of_another_head({"model.pooling": "first"})
    asked = Config().override({"train.task": "classify", "model.topology": "encoder-only", "model.head": "class"})
    settled = start.configure(asked)
    assert (settled.model.head, settled.model.pooling, settled.model.d_model) == ("class", "first", 8)
    assert start.configure(asked.override({"model.pooling": "mean"})).model.pooling == "mean"


def test_other_stacks_are_refused() -> None:
    asked = Config().override({"train.task": "translate"})
    with pytest.raises(ConfigError) as caught:
        of_another_head().configure(asked)
    assert caught.value.name == "train.init_from" and "encoder-decoder" in caught.value.expected


LABELLED = [("I am hungry.", "I"), ("You are late.", "you"), ("She sings.", "she"), ("We are here.", "we")] * 5


@pytest.mark.parametrize("task", ["embed", "fill"])
def test_a_classifier_begins_with_the_encoder_of_another_task(tmp_path: Path, task: str) -> None:
    settings = {"begin": True, "n_token_types": 2, "pre_norm": True, "normalize": True}
    settings |= {"head_layer": "norm", "projection_bias": True} if task == "fill" else {"pooling": "first"}
    first = make_encoder_folder(tmp_path / "first", task=task, **settings)
    values = {"train.task": "classify", "train.init_from": str(first), "train.lr": 1e-9, "train.steps": 1}
    values |= {"train.threads": 1, "train.precision": "fp32", "train.warmup": 0}
    said: list[str] = []
    second = train(Config().override(values), tmp_path / "second", data=LABELLED, say=said.append)
    model = load(second, device="cpu").config.model
    assert (model.head, model.pooling, model.head_layer, model.normalize) == ("class", "first", "tanh", False)
    assert model.begin and model.n_token_types == 2
    assert any("the head is new" in line and "encoder" not in line for line in said)
    weights = load_model_folder(second).weights
    for name, weight in load_model_folder(first).weights.items():
        if not name.startswith("head."):
            ours = name if task == "fill" else f"encoder.{name}"
            torch.testing.assert_close(weights[ours], weight, rtol=0, atol=1e-6)
