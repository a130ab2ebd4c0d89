"""Frames against their formula, with scipy as the oracle for the spectrogram."""

import math

import numpy as np
import pytest
import torch
from scipy.signal import stft
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.config.front_geometry import PAD_SAMPLE, audio_positions
from clearhead.errors import ConfigError, ModelError
from clearhead.model.fronts.frames import Frames, mel_filters
from clearhead.model.transformer import EncoderModel, build

RATE, D = 8000, 16


def front(**settings) -> Frames:
    torch.manual_seed(0)
    return Frames(D, RATE, **settings).eval()


def noise(*shape: int, loudest: int = 3000) -> Tensor:
    return torch.randint(-loudest, loudest, shape, generator=torch.Generator().manual_seed(1)).to(torch.int16)


def padded(recordings: Tensor, n_samples: int) -> Tensor:
    longer = torch.full((len(recordings), n_samples), PAD_SAMPLE, dtype=torch.int16)
    longer[:, : recordings.size(1)] = recordings
    return longer


def test_the_spectrogram_is_the_logarithm_of_the_mel_bands_of_scipys() -> None:
    frames, recording = front(), noise(1, 2001)
    hop, n_fft, width = frames.hop, frames.n_fft, len(frames.window)
    assert (hop, width) == (80, 200)
    window = np.zeros(n_fft)  # a frame's window lies in the middle of its transform
    window[(n_fft - width) // 2 : (n_fft + width) // 2] = np.hanning(width + 1)[:-1]
    wave = np.pad(recording[0].numpy() / 32768, (n_fft // 2, 2 * n_fft))
    _, _, bins = stft(wave, window=window, nperseg=n_fft, noverlap=n_fft - hop, boundary=None, padded=False)
    power = np.abs(bins * window.sum()) ** 2  # scipy divides by the sum of the window
    n_frames = math.ceil(2001 / hop)
    expected = np.log(power[:, :n_frames].T @ frames.filters.numpy() + 1e-6)
    np.testing.assert_allclose(frames.spectrogram(recording)[0].numpy(), expected, atol=2e-4)


def test_a_mel_filter_rises_to_one_at_its_centre_and_falls_to_zero_at_its_neighbours() -> None:
    filters = mel_filters(10, 2**16, RATE).double()
    mel = [2595 * math.log10(1 + RATE / 2 / 700) * i / 11 for i in range(12)]
    edges = [700 * (10 ** (it / 2595) - 1) for it in mel]
    frequency = torch.linspace(0, RATE / 2, 2**15 + 1, dtype=torch.float64)
    for i, (low, centre, high) in enumerate(zip(edges, edges[1:], edges[2:])):
        expected = [
            (f - low) / (centre - low)
            if low <= f <= centre
            else (high - f) / (high - centre)
            if centre < f < high
            else 0
            for f in frequency[::97].tolist()
        ]
        torch.testing.assert_close(filters[::97, i], torch.tensor(expected).double(), atol=1e-5, rtol=0)
    assert (filters[(frequency > edges[1]) & (frequency < edges[-2])].sum(1) - 1).abs().max() < 1e-5


def test_each_band_of_any_rate_hears_something() -> None:
    for rate in (8000, 11_025, 16_000, 44_100, 48_000):
        frames = Frames(D, rate)
        assert frames.filters.sum(0).min() > 0


def test_padding_changes_nothing_and_is_masked() -> None:
    frames = front()
    for n_samples in (1, 79, 80, 81, 320, 321, 3000):
        recording = noise(2, n_samples)
        alone, together = frames(recording), frames(padded(recording, 4000))
        n = audio_positions(n_samples, RATE)
        assert alone.shape == (2, n, D)
        torch.testing.assert_close(together[:, :n], alone, atol=1e-5, rtol=1e-5)
        assert frames.mask(padded(recording, 4000))[0, 0, 0].tolist() == [i < n for i in range(together.size(1))]
        assert frames.mask(recording).all()


def test_loudness_does_not_matter() -> None:
    frames, recording = front(), noise(1, 4000, loudest=2000)
    torch.testing.assert_close(frames(8 * recording), frames(recording), atol=1e-3, rtol=0)


def test_a_position_sees_the_recording_around_it_alone() -> None:
    frames, recording = front(), noise(1, 16_000)
    frames.normalised = lambda x, real: x  # the mean of a recording depends on all of it
    changed = recording.clone()
    changed[0, 8000:8080] += 500
    differs = (frames(recording) - frames(changed)).abs().amax(-1)[0] > 1e-4
    at = differs.nonzero().flatten().tolist()
    assert min(at) >= 8000 // 320 - 2 and max(at) <= 8080 // 320 + 2 and at


def test_spec_augment_hides_bands_and_times_in_training_only() -> None:
    frames, recording = front(spec_augment=0.3), noise(4, 8000)
    spectrogram, real = frames.spectrogram(recording), torch.ones(4, 100, dtype=torch.bool)
    torch.manual_seed(1)
    hidden = frames._masked(spectrogram, real) == 0
    assert hidden.all(1).any() and hidden.all(2).any()  # whole bands, and whole frames
    assert 0 < hidden.double().mean() < 0.8
    assert frames(recording).equal(front()(recording))
    frames.train()
    assert not frames(recording).equal(frames(recording))


def test_a_faster_recording_is_shorter_and_higher() -> None:
    time = torch.arange(RATE) / RATE
    recording = padded((8000 * torch.sin(2 * math.pi * 1000 * time)).to(torch.int16)[None].repeat(32, 1), RATE + 100)
    torch.manual_seed(2)
    changed = front(speed=0.2).augment(recording)
    lengths = (changed != PAD_SAMPLE).sum(1)
    assert lengths.min() >= RATE / 1.21 and lengths.max() <= RATE / 0.79 and len(lengths.unique()) > 20
    for row, length in zip(changed, lengths.tolist()):
        heard = row[:length].double()
        peak = int(torch.fft.rfft(heard).abs().argmax()) * RATE / length
        assert peak == pytest.approx(1000 * RATE / length, rel=0.01)
    assert front().augment(recording) is recording


@pytest.mark.usefixtures("single")
def test_a_minute_of_recording_is_sped_up_without_rounding_the_times() -> None:
    ramp = (torch.arange(60 * 16_000) % 2 * 2000).to(torch.int16)[None]  # any error of time shows in the value
    frames = Frames(D, 16_000, speed=0.1)
    torch.manual_seed(3)
    changed = frames.augment(ramp)[0]
    torch.manual_seed(3)
    rate = 1 + 0.1 * (2 * float(torch.rand(1)) - 1)
    at = np.arange(int((changed != PAD_SAMPLE).sum())) * rate
    np.testing.assert_allclose(changed[: len(at)].numpy(), np.interp(at, np.arange(60 * 16_000), ramp[0]), atol=1)


@pytest.mark.usefixtures("single")
def test_the_spectrogram_keeps_float32_when_products_are_in_bfloat16() -> None:
    frames, recording = front(), noise(2, 3000)
    heard: list[Tensor] = []
    frames.convolutions[0].register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    frames(recording)
    with torch.autocast("cpu", torch.bfloat16):
        frames(recording)
    assert heard[0].equal(heard[1])
    assert frames.bfloat16()(recording).isfinite().all()


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("n_samples", [1, 80, 81, 200])
def test_gradients_of_the_shortest_recordings_are_right_in_bfloat16(n_samples: int) -> None:
    recording, found = noise(3, n_samples), []
    for enabled in (False, True):
        frames = front()
        for _ in range(5):  # memory that nothing was written to differs each time
            frames.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                frames(recording).square().sum().backward()
            found.append(torch.cat([it.grad.flatten() for it in frames.parameters() if it.grad is not None]))
    for gradient in found[1:]:
        torch.testing.assert_close(gradient, found[0], rtol=0.05, atol=0.05 * float(found[0].abs().max()))


def test_a_model_needs_a_sample_rate_and_samples() -> None:
    sizes = {"topology": "encoder-only", "head": "class", "n_classes": 2, "d_model": D, "n_heads": 2, "d_ff": 32}
    with pytest.raises(ConfigError) as caught:
        build(ModelConfig(front="frames", **sizes))
    assert caught.value.name == "model.sample_rate"
    model = build(ModelConfig(front="frames", sample_rate=RATE, n_encoder_layers=1, **sizes))
    assert isinstance(model, EncoderModel) and model(noise(3, 1000)).shape == (3, 2)
    with pytest.raises(ModelError) as caught:
        model(noise(3, 0))
    assert caught.value.name == "inputs"


def test_a_batch_of_different_lengths_is_what_each_recording_gives_alone() -> None:
    torch.manual_seed(0)
    sizes = {"topology": "encoder-only", "head": "class", "n_classes": 3, "d_model": D, "n_heads": 2, "d_ff": 32}
    model = build(ModelConfig(front="frames", sample_rate=RATE, n_encoder_layers=2, **sizes)).eval()
    recordings = [noise(1, n) for n in (500, 2000, 4100)]
    together = model(torch.cat([padded(it, 4100) for it in recordings]))
    for row, recording in zip(together, recordings):
        torch.testing.assert_close(row[None], model(recording), atol=1e-5, rtol=1e-4)
