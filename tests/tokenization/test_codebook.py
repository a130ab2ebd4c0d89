import json

import numpy as np
import pytest

from clearhead.config import DataConfig, SpecialTokens
from clearhead.config.front_geometry import audio_positions, position_samples
from clearhead.errors import ModelError
from clearhead.tokenization.codebook import Codebook, _means
from clearhead.tokenization.source_and_target import Tokenizers
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import tone

RATE = 4000


def sound(*frequencies: float, seconds: float = 0.2) -> np.ndarray:
    parts = [tone(it, seconds, RATE) for it in frequencies]
    return (np.concatenate(parts) * 32767).astype(np.int16)


@pytest.fixture(scope="module")
def codebook() -> Codebook:
    return Codebook.learn([sound(300, 900), sound(1500, 300)], RATE, 20, 64)


def test_a_recording_has_a_code_for_each_position(codebook: Codebook) -> None:
    for n in (1, 159, 160, 161, 1000):
        assert len(codebook.codes(sound(300)[:1].repeat(n))) == audio_positions(n, RATE)


def test_the_text_of_codes_is_read_as_the_same_codes(codebook: Codebook) -> None:
    codes = codebook.codes(sound(300, 1500))
    text = codebook.decode(codes)
    assert text.split() == [str(code - 4) for code in codes] and codebook.encode(text) == codes


def test_with_a_code_for_each_patch_nothing_is_lost(codebook: Codebook) -> None:
    recording = sound(300, 900)
    np.testing.assert_allclose(
        codebook.spectrogram(codebook.codes(recording)), codebook.patches_of(recording), atol=0.02
    )


def test_the_sound_of_codes_has_the_codes(codebook: Codebook) -> None:
    recording = sound(900, 900)
    codes = codebook.codes(recording)
    found = codebook.samples([1, *codes, 2])  # special tokens have no sound
    assert found.dtype == np.int16 and abs(len(found) - position_samples(len(codes), RATE)) <= 40
    power = np.abs(np.fft.rfft(found.astype(float)))
    assert abs(power.argmax() * RATE / len(found) - 900) < 80  # half a band
    assert not len(codebook.samples([]))


def test_a_codebook_in_a_file_is_the_same(codebook: Codebook) -> None:
    source = Tokenizer.train(["a b"], DataConfig(tokenizer="character"))
    text = Tokenizers(source, codebook).to_json()
    found = Tokenizers.from_json(text, SpecialTokens(), origin="tokenizer.json")
    assert isinstance(found.target, Codebook) and found.to_json() == text
    np.testing.assert_array_equal(found.target.patches, codebook.patches)
    assert (found.target.sample_rate, found.target.vocab_size) == (RATE, codebook.vocab_size)


def test_a_damaged_codebook_is_an_error(codebook: Codebook) -> None:
    source = Tokenizer.train(["a b"], DataConfig(tokenizer="character"))
    content = json.loads(Tokenizers(source, codebook).to_json())
    for damaged in (
        None,
        [],
        {"patches": "AAAA", "n_mels": 20, "sample_rate": RATE},
        content["codebook"] | {"n_mels": 0},
    ):
        with pytest.raises(ModelError, match="codebook") as caught:
            Tokenizers.from_json(json.dumps(content | {"codebook": damaged}), SpecialTokens(), origin="tokenizer.json")
        assert caught.value.name == "tokenizer.json"


def test_means_are_those_of_the_clusters() -> None:
    dice = np.random.default_rng(0)
    clusters = [dice.normal(size=(30, 3)).astype(np.float32) + 20 * n for n in range(3)]
    found = _means(np.concatenate(clusters), 3)
    expected = np.stack([it.mean(0) for it in clusters])
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], expected, rtol=1e-3)


def test_there_are_no_more_means_than_vectors() -> None:
    found = _means(np.array([[1.0], [1.0], [5.0]], np.float32), 10)
    assert sorted(found[:, 0].tolist()) == [1, 5]
