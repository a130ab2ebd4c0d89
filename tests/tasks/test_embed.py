"""Embeddings of texts: the pooled output of the encoder of any model that has one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.api import load, train
from clearhead.apps.embedder import Embedder
from clearhead.config import Config
from clearhead.errors import ConfigError, DataError
from clearhead.tasks.embed import TextEmbedding
from tests.builders import make_encoder_folder

TEXTS = ["I am hungry.", "She sings.", "", "They sleep well, and we are here.", "I am hungry."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder(tmp_path_factory.mktemp("embed"), task="embed", begin=True)


@pytest.fixture
def app(folder: Path) -> Embedder:
    found = load(folder, device="cpu")
    assert isinstance(found, Embedder)
    return found


def hidden(app, text: str) -> np.ndarray:
    """The encoder's output for one text, with BOS and EOS. (S, D)"""
    ids = torch.tensor([[1, *app.tokenizers.source.encode(text), 2]])
    with torch.no_grad():
        return app.model(ids)[0].numpy()


def test_an_embedding_is_the_mean_of_all_vectors_those_of_bos_and_eos_included(app: Embedder) -> None:
    found = app.embed(TEXTS)
    assert found.shape == (len(TEXTS), 16) and found.dtype == np.float32
    for text, vector in zip(TEXTS, found):
        np.testing.assert_allclose(vector, hidden(app, text).mean(0), rtol=0, atol=1e-6)


def test_the_first_vector_and_the_length_can_be_asked_for(app: Embedder) -> None:
    first, unit = app.embed(TEXTS, pooling="first"), app.embed(TEXTS, normalize=True)
    for text, vector, scaled in zip(TEXTS, first, unit):
        np.testing.assert_allclose(vector, hidden(app, text)[0], rtol=0, atol=1e-6)
        mean = hidden(app, text).mean(0)
        np.testing.assert_allclose(scaled, mean / np.linalg.norm(mean), rtol=0, atol=1e-6)


def test_the_folder_decides_what_is_not_asked_for(tmp_path: Path, app: Embedder) -> None:
    other = load(make_encoder_folder(tmp_path, task="embed", pooling="first", normalize=True), device="cpu")
    np.testing.assert_array_equal(other.embed(TEXTS), app.embed(TEXTS, pooling="first", normalize=True))
    np.testing.assert_array_equal(other.embed(TEXTS, pooling="mean", normalize=False), app.embed(TEXTS))


def test_batches_keep_the_order_and_change_nothing(app: Embedder) -> None:
    np.testing.assert_allclose(app.embed(TEXTS, batch_tokens=12), app.embed(TEXTS), rtol=0, atol=1e-6)
    assert app.embed([]).shape == (0, 16)
    np.testing.assert_array_equal(app(TEXTS), app.embed(TEXTS))
    np.testing.assert_allclose(app(TEXTS[1], normalize=True), app.embed(TEXTS, normalize=True)[1], rtol=0, atol=1e-6)


def test_a_long_text_is_cut_and_its_reading_says_how_much(app: Embedder) -> None:
    long = "I am hungry and " * 30
    ids = app.tokenizers.source.encode(long)
    assert app.reading(long).cut == len(ids) - 38  # model.max_len=40, with BOS and EOS
    np.testing.assert_array_equal(app(long), app(long + "they sleep"))


def test_data_max_len_cuts_too(tmp_path: Path, folder: Path) -> None:
    short = load(folder, device="cpu").override({"data.max_len": 5})
    assert short.reading("I am hungry and late. " * 3).cut > 0
    assert short.embed(["I am hungry and late. " * 3]).shape == (1, 16)


@pytest.mark.parametrize("wrong", [{"pooling": "max"}, {"normalize": 3}, {"batch_tokens": 0}])
def test_a_wrong_option_is_an_error_that_names_it(app: Embedder, wrong: dict) -> None:
    with pytest.raises(ConfigError) as caught:
        app.embed(TEXTS, **wrong)
    assert caught.value.name.endswith(next(iter(wrong)))


def test_one_text_is_not_a_list(app: Embedder) -> None:
    with pytest.raises(DataError):
        app.embed("I am hungry.")  # type: ignore[arg-type]


def test_a_translator_embeds_with_its_encoder(model_folder: Path) -> None:
    app = load(model_folder, device="cpu")
    for text, vector in zip(TEXTS, app.embed(TEXTS)):
        ids = torch.tensor([[*app.tokenizers.source.encode(text), 2]])
        with torch.no_grad():
            expected = app.model.encode(ids)[0].mean(0).numpy()
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-6)


def test_models_that_answer_questions_and_fill_masks_embed_texts(answer_folder: Path, tmp_path: Path) -> None:
    filler = load(make_encoder_folder(tmp_path, task="fill"), device="cpu")
    answerer = load(answer_folder, device="cpu")
    for app, begins in ((filler, []), (answerer, [1])):
        ids = torch.tensor([[*begins, *app.tokenizers.source.encode(TEXTS[0]), 2]])
        with torch.no_grad():
            expected = app.model.encoder(ids)[0].mean(0).numpy()
        np.testing.assert_allclose(app.embed(TEXTS)[0], expected, rtol=0, atol=1e-6)


def test_a_language_model_has_no_encoder(tmp_path: Path) -> None:
    app = load(make_encoder_folder(tmp_path, task="generate", n_decoder_layers=1), device="cpu")
    with pytest.raises(ConfigError) as caught:
        app.embed(TEXTS)
    assert caught.value.name == "model.topology"


def test_pixels_of_a_custom_task_cannot_be_embedded(app: Embedder) -> None:
    pixels = {"model.front": "patches", "model.image_size": 8, "model.patch_size": 4, "model.image_channels": 1}
    with pytest.raises(ConfigError) as caught:
        app.override(pixels).embed(TEXTS)
    assert caught.value.name == "model.front"


def test_an_embedding_cannot_be_trained_and_has_no_scores(app: Embedder, tmp_path: Path) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(TEXTS))
    config = Config().override({"train.task": "embed", "data.train": (str(data),)})
    for wrong in (
        lambda: train(config, tmp_path / "model", say=lambda _: None),
        lambda: app.evaluate(data),
        lambda: app.ablate(data, keep=False),
        TextEmbedding.main_score,
    ):
        with pytest.raises(ConfigError) as caught:
            wrong()
        assert (caught.value.name, caught.value.value) == ("train.task", "embed")
    assert not (tmp_path / "model").exists()


def test_every_check_of_verify_passes(app: Embedder, tmp_path: Path) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(TEXTS))
    assert app.verify().passed and app.verify(data).passed


def test_an_explanation_has_the_embedding(app: Embedder) -> None:
    found = app.explain(TEXTS[0])
    first = ", ".join(f"{value:.4f}" for value in app(TEXTS[0])[:6])
    assert found.answer == f"[{first}, …]" and found.tokens["encoder"][0] == "<s>"
    assert found.values["length"] == pytest.approx(np.linalg.norm(app(TEXTS[0])))
    assert "encoder.0.self" in found.trace.calls
    with pytest.raises(DataError):
        app.explain(" ")


def test_a_part_can_be_switched_off(app: Embedder) -> None:
    whole = app.embed(TEXTS)
    with app.without("encoder.0.self.head.1"):
        assert np.abs(app.embed(TEXTS) - whole).max() > 1e-3
    np.testing.assert_array_equal(app.embed(TEXTS), whole)
