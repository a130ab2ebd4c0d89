import pytest
import torch
from torch import Tensor

from clearhead.model.fronts import frames
from clearhead.model.fronts.frames import Frames, magnitudes, waveform
from tests.builders import tone

RATE = 8000


@pytest.fixture
def front() -> Frames:
    return Frames(1, RATE, 40)


def spectrogram(front: Frames, samples: Tensor) -> Tensor:
    return front.spectrogram((samples * 32767).round().to(torch.int16)[None])[0]


def test_a_tone_comes_back_with_its_frequency(front: Frames) -> None:
    found = waveform(front, spectrogram(front, torch.from_numpy(tone(1000, 0.5)).float()))
    power = torch.fft.rfft(found).abs()
    assert abs(int(power.argmax()) * RATE / len(found) - 1000) < 20


def test_the_rounds_bring_the_spectrogram_nearer(front: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = spectrogram(front, torch.from_numpy(tone(1000, 0.5)).float())
    loud = expected[1:-2] > expected.max() - 5
    distances = []
    for rounds in (0, 32):
        monkeypatch.setattr(frames, "_ROUNDS", rounds)
        again = spectrogram(front, waveform(front, expected))
        distances.append(float((again[1:-1] - expected[1:-2])[loud].abs().mean()))
    assert distances[0] > 1.2 * distances[1]


def test_the_filters_find_the_power_of_the_spectrogram_in_the_magnitudes(front: Frames) -> None:
    frames = spectrogram(front, torch.from_numpy(tone(700, 0.1) + tone(1600, 0.1) / 4).float())
    again = (magnitudes(front, frames).square().T @ front.filters + 1e-6).log()
    loud = frames > frames.max() - 5
    torch.testing.assert_close(again[loud], frames[loud], rtol=0, atol=0.05)


def test_bands_without_a_frequency_of_their_own_are_no_problem() -> None:
    front = Frames(1, RATE, 300)
    assert (front.filters.sum(0) == 0).any()
    assert magnitudes(front, spectrogram(front, torch.from_numpy(tone(700, 0.1)).float())).isfinite().all()


def test_the_same_spectrogram_has_the_same_sound_and_none_has_none(front: Frames) -> None:
    frames = torch.randn(12, 40, generator=torch.Generator().manual_seed(1)) - 4
    state = torch.random.get_rng_state()
    assert torch.equal(waveform(front, frames), waveform(front, frames))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not len(waveform(front, frames[:0])) and not len(waveform(front, frames[:1]))
