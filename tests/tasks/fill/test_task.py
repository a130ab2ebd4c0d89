"""Filling masks: what a text is cut into, what the answers are, and that training makes them right."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.api import load, train
from clearhead.apps.filler import Filler
from clearhead.config import Config
from clearhead.data.running_text import Running
from clearhead.errors import ConfigError, DataError
from clearhead.readers.documents import Piece
from clearhead.readers.skipped import Report
from clearhead.tasks.fill.fillings import fill
from clearhead.tasks.fill.task import Filling
from clearhead.tasks.registry import task_of
from tests.builders import make_encoder_folder

TEXTS = ["I am [MASK].", "[MASK] are [MASK].", "She sings, they sleep and we are [MASK]."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder(tmp_path_factory.mktemp("fill"), task="fill")


@pytest.fixture
def app(folder: Path) -> Filler:
    found = load(folder, device="cpu")
    assert isinstance(found, Filler)
    return found


def running(*pieces: str) -> Running:
    return Running([Piece("x", text, line) for line, text in enumerate(pieces, 1)], Report(()))


def test_a_text_is_cut_at_its_blank_lines_or_else_at_its_lines() -> None:
    assert Filling.texts(running("one\ntwo\n\n", "three\n")) == ["one", "two", "three"]
    assert Filling.texts(running("one\ntwo\n\nthree\n \t\n\nfour\n")) == ["one\ntwo", "three", "\nfour"]


def test_the_probabilities_are_those_of_the_model_at_the_mask(app: Filler) -> None:
    for text, result in zip(TEXTS, app.results(TEXTS, top=3)):
        ids, masks = app.tokenizers.source.encode_masked(text)
        with torch.no_grad():
            everywhere = app.model(torch.tensor([[*ids, 2]]))  # no `at`: every position but padding
        for place, candidates in zip(masks, result.masks, strict=True):
            p = everywhere[place].softmax(-1)
            p_allowed = torch.cat((torch.zeros(4), p[4:]))  # no special token
            assert [it.probability for it in candidates] == pytest.approx(p_allowed.topk(3).values.tolist(), rel=1e-5)
            pieces = app.tokenizers.source.pieces(p_allowed.topk(3).indices.tolist())
            assert [it.token for it in candidates] == pieces


def test_a_filled_text_has_the_best_tokens_in_place_of_its_masks(app: Filler) -> None:
    for text, result in zip(TEXTS, app.results(TEXTS)):
        assert app.mask not in result.filled and result.text == text
        assert app(text) == result.filled
    assert (
        app(TEXTS)
        == [it.filled for it in app.results(TEXTS)]
        == app.task.answers(app.model, TEXTS, app.decode_config())
    )


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        ("I am [MASK].", "▁hungry", "I am hungry."),
        ("I am[MASK].", "▁hungry", "I am hungry."),
        ("[MASK] am", "▁I", "I am"),
        ("I am [MASK]", ".", "I am."),
        ("I[MASK]am", "▁", "I am"),
    ],
)
def test_a_token_brings_the_space_before_it(tmp_path: Path, text: str, token: str, expected: str) -> None:
    folder = make_encoder_folder(tmp_path, task="fill", tokenizer="bpe" if token == "▁" else "word")
    tokenizer = load(folder, device="cpu").tokenizers.source
    assert fill(tokenizer, text, [tokenizer.token_id(token)]) == expected


def test_a_character_keeps_the_space_before_it(tmp_path: Path) -> None:
    tokenizer = load(make_encoder_folder(tmp_path, task="fill", tokenizer="character"), device="cpu").tokenizers.source
    assert fill(tokenizer, "I [MASK]m", [tokenizer.token_id("a")]) == "I am"


def test_a_suppressed_token_is_not_offered(app: Filler) -> None:
    [first], [second] = (app.results(TEXTS[:1], top=2)[0].masks, app.results(TEXTS[:1])[0].masks)
    assert first[0] == second[0]
    [without] = app.results(TEXTS[:1], suppress=(first[0].token,))[0].masks
    assert without[0].token == first[1].token and without[0].probability == pytest.approx(first[1].probability)


def test_special_tokens_are_offered_if_the_settings_allow_them(app: Filler) -> None:
    size = app.tokenizers.source.vocab_size
    assert len(app.results(TEXTS[:1], top=size)[0].masks[0]) == size - 4
    assert len(app.results(TEXTS[:1], top=size, suppress_special=False)[0].masks[0]) == size


def test_a_batch_changes_no_answer_and_blank_texts_stay_blank(app: Filler) -> None:
    several = app.results([*TEXTS, " ", *TEXTS], top=2, batch_tokens=16)
    for text, result in zip([*TEXTS, " ", *TEXTS], several):
        [alone] = app.results([text], top=2)
        assert result.filled == alone.filled and len(result.masks) == len(alone.masks)
    assert several[3].filled == " " and several[3].masks == ()


@pytest.mark.parametrize("text", ["I am hungry.", "I am <mask>.", "[mask]", "word " * 60 + "[MASK]"])
def test_a_text_that_cannot_be_filled_is_an_error(app: Filler, text: str) -> None:
    for ask in (app, app.explain, app.reading):
        with pytest.raises(DataError) as caught:
            ask(text)
        assert caught.value.name == "text"


@pytest.mark.parametrize("top", [0, -1, True, 1.5, "3"])
def test_top_is_a_number_from_1(app: Filler, top: object) -> None:
    with pytest.raises(ConfigError) as caught:
        app.results(TEXTS, top=top)  # type: ignore[arg-type]
    assert caught.value.name == "top"


def test_a_search_setting_has_no_effect(app: Filler) -> None:
    with pytest.raises(ConfigError) as caught:
        app(TEXTS[0], beam=3)
    assert caught.value.name == "decode.beam"


def test_a_vocabulary_without_a_mask_token_is_an_error(tmp_path: Path) -> None:
    folder = make_encoder_folder(tmp_path, task="fill", mask_id=None)
    with pytest.raises(ConfigError) as caught:
        load(folder, device="cpu")
    assert caught.value.name == "model.mask_id"


def test_unknown_words_are_named(tmp_path: Path) -> None:
    app = load(make_encoder_folder(tmp_path, task="fill", tokenizer="word"), device="cpu")
    [result] = app.results(["zebras are [MASK]."])
    assert result.unknown == ("zebras",) == app.reading("zebras are [MASK].").unknown and len(result.masks) == 1


def test_an_explanation_shows_the_masks_and_attributes_the_best_token(app: Filler) -> None:
    found = app.explain(TEXTS[1])
    assert found.answer == app(TEXTS[1]) and found.tokens["encoder"].count("[MASK]") == 2
    best = [mask[0].probability for mask in app.results([TEXTS[1]])[0].masks]
    assert found.values["probability"] == pytest.approx(math.prod(best), rel=1e-5)


def test_the_contributions_add_up_to_the_logit_of_a_token(tmp_path: Path) -> None:
    app = load(make_encoder_folder(tmp_path, task="fill", tokenizer="word"), device="cpu")
    found, [result] = app.explain(TEXTS[0]), app.results(TEXTS[:1], top=2)
    best, second = result.masks[0]
    for said, other in ((None, None), (best.token, None), ("She", "sings"), (best.token, second.token)):
        why = found.why(said, other)
        assert sum(it.value for it in why.contributions) == pytest.approx(why.difference, abs=1e-4)
    assert found.why().difference == found.why(best.token).difference
    assert found.why(best.token, second.token).difference == pytest.approx(
        math.log(best.probability / second.probability), abs=1e-4
    )
    with pytest.raises(ConfigError) as caught:
        found.why("She", "She")
    assert caught.value.name == "not"


def test_a_head_with_a_hidden_layer_has_no_attribution(tmp_path: Path) -> None:
    app = load(make_encoder_folder(tmp_path, task="fill", head_layer="norm"), device="cpu")
    with pytest.raises(ConfigError) as caught:
        app.explain(TEXTS[0]).why()
    assert caught.value.name == "why"
    [result] = app.results(TEXTS[:1], top=2)
    best, second = result.masks[0]
    with pytest.raises(ConfigError) as caught:
        app.explain(TEXTS[0]).why(second.token)
    assert caught.value.value == second.token != best.token


def test_a_word_outside_the_vocabulary_cannot_be_explained(tmp_path: Path) -> None:
    app = load(make_encoder_folder(tmp_path, task="fill", tokenizer="word"), device="cpu")
    for said, other, name in (("zebra", None, "why"), ("I", "zebra", "not")):
        with pytest.raises(ConfigError) as caught:
            app.explain(TEXTS[0]).why(said, other)
        assert caught.value.name == name


def test_the_scores_of_the_texts_have_the_mean_of_all(app: Filler, tmp_path: Path) -> None:
    data = tmp_path / "book.txt"
    data.write_text("I am hungry.\nThey sleep well and we are here.\n" * 3)
    evaluation = app.evaluate(data)
    singly = evaluation.judged.singly()
    assert singly["hidden_accuracy"].mean() == pytest.approx(evaluation.scores.hidden_accuracy)
    assert len(singly["hidden_nats"]) == len(evaluation.sources) == evaluation.scores.texts == 6
    assert evaluation.sources[0] == "I am hungry." and evaluation.report()
    assert evaluation.to_dict() == app.evaluate(data).to_dict()  # the masks are fixed


def test_every_check_of_verify_passes_and_a_part_can_be_removed(app: Filler, tmp_path: Path) -> None:
    data = tmp_path / "book.txt"
    data.write_text("I am hungry.\nThey sleep well and we are here.\n" * 3)
    assert app.verify().passed and app.verify(data).passed
    assert {row.name for row in app.ablate(data, parts="heads", keep=False).rows} == {
        f"encoder.0.self.head.{head}" for head in (0, 1)
    }


def test_training_learns_which_words_follow_each_other(tmp_path: Path) -> None:
    capitals = {"France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Norway": "Oslo"}
    data = tmp_path / "book.txt"
    lines = [f"{capital} is the capital of {country}." for country, capital in capitals.items()]
    data.write_text("\n".join(lines * 60))
    values = {"train.task": "fill", "data.train": (str(data),), "data.tokenizer": "word", "train.steps": 150}
    values |= {"model.d_model": 32, "model.n_heads": 2, "model.d_ff": 32, "model.n_encoder_layers": 1}
    values |= {"model.dropout": 0.0, "train.threads": 1, "train.precision": "fp32", "data.batch_tokens": 256}
    app = load(train(Config().override(values), tmp_path / "model", say=lambda _: None), device="cpu")
    assert app([f"[MASK] is the capital of {country}." for country in capitals]) == lines
    [result] = app.results(["Oslo is the [MASK] of [MASK]."], top=2)
    assert [mask[0].text for mask in result.masks] == ["capital", "Norway"]
    assert task_of(app.config) is Filling and np.isfinite(app.embed(lines)).all()


@pytest.mark.parametrize(
    ("name", "value"), [("train.warm_start", "denoise"), ("decode.beam", 2), ("model.head", "class")]
)
def test_a_setting_that_does_not_fit_is_an_error(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Filling.settle(Config().override({"train.task": "fill", name: value}))
    assert caught.value.name == name
