"""Audio to vectors: a log-mel spectrogram, shortened by two strided convolutions (Whisper, Radford et al. 2023).

`waveform` turns a spectrogram back into sound.
"""

import math

import torch
from torch import Tensor, nn

from ...config.front_geometry import (
    PAD_SAMPLE,
    SUBSAMPLING,
    audio_positions,
    hop_length,
    position_seconds,
    window_length,
)
from ...errors import ModelError
from .front import Front

_QUIET = 1e-6  # added to the power in each band before the logarithm: silence has a logarithm too
_N_MASKS = 2  # in time, and in frequency (SpecAugment, Park et al. 2019)
_ROUNDS = 32  # of the algorithm that finds phases; more are hardly audible
_SHARPER, _LEAST = 20, 1e-9  # rounds to find the power at each frequency, and a number to divide by
_MOMENTUM = 0.99  # of the fast algorithm (Perraudin, Balazs & Søndergaard 2013)


class Frames(Front):
    """Turns samples into one vector for every 40 ms.

    Samples are 16-bit integers; `PAD_SAMPLE` marks padding, which changes nothing. Each spectrogram gets mean 0 and
    variance 1, so loudness doesn't matter. In training, `augment` changes the speed, and `forward` masks bands
    and stretches of time.

    Args:
        d_model: the width of the embeddings.
        sample_rate: samples per second.
        n_mels: bands of the spectrogram.
        spec_augment: maximum share of the bands, and of the time, that each of two masks hides.
        speed: maximum relative change of the speed, such as 0.1.
    """

    pad = PAD_SAMPLE
    filters: Tensor
    window: Tensor

    def __init__(
        self, d_model: int, sample_rate: int, n_mels: int = 40, *, spec_augment: float = 0.0, speed: float = 0.0
    ) -> None:
        super().__init__()
        self.sample_rate, self.hop, width = sample_rate, hop_length(sample_rate), window_length(sample_rate)
        self.n_fft = 2 ** (2 * width - 1).bit_length()  # at least two bins for the narrowest bands
        self.spec_augment, self.speed = spec_augment, speed
        self.register_buffer("filters", mel_filters(n_mels, self.n_fft, sample_rate), persistent=False)
        self.register_buffer("window", torch.hann_window(width), persistent=False)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, d_model, 3, stride=2, padding=1) for channels in (n_mels, d_model)
        )

    def forward(self, inputs: Tensor) -> Tensor:  # (B, N) -> (B, S, D)
        real = self._frames_of(inputs)  # (B, T)
        device = "cpu" if inputs.is_meta else inputs.device.type  # "meta" has no autocast
        with torch.autocast(device, enabled=False):  # bfloat16 would blur the spectrogram and its mean
            x = self.normalised(self.spectrogram(inputs), real)
        if self.training and self.spec_augment:
            x = self._masked(x, real)
        x = x.transpose(1, 2).to(next(self.convolutions.parameters()).dtype)
        missing = max(0, SUBSAMPLING - x.size(2))  # CPUs return a wrong bfloat16 gradient for one frame
        x, real = nn.functional.pad(x, (0, missing)), nn.functional.pad(real, (0, missing))
        for convolution in self.convolutions:
            x = nn.functional.gelu(convolution(x * real[:, None]))  # padding must stay zero
            real = real[:, ::2]
        return x.transpose(1, 2)

    def mask(self, inputs: Tensor) -> Tensor:  # (B, N) -> (B, 1, 1, S)
        return self._frames_of(inputs)[:, None, None, ::SUBSAMPLING]

    def names(self, inputs: Tensor) -> list[list[str]]:
        """Return the time in the middle of each position: "0.12s"."""
        n_positions = audio_positions(inputs.size(1), self.sample_rate)
        return [[f"{n * position_seconds(self.sample_rate):.2f}s" for n in range(n_positions)]] * len(inputs)

    def spectrogram(self, inputs: Tensor) -> Tensor:
        """Return the log-mel spectrogram, with a frame centred on every `hop`-th sample. (B, N) -> (B, T, M)"""
        if inputs.dim() != 2 or not inputs.size(1):
            what = f"the recordings have shape {tuple(inputs.shape)}"
            raise ModelError(what, expected="(B, N) samples, at least one", name="inputs", value=tuple(inputs.shape))
        window = self.window.to(torch.promote_types(self.window.dtype, torch.float32))  # no FFT has 16 bits everywhere
        wave = inputs.masked_fill(inputs == PAD_SAMPLE, 0).to(window.dtype) / 32768
        n_frames = (wave.size(1) + self.hop - 1) // self.hop
        last = (n_frames - 1) * self.hop + self.n_fft
        wave = nn.functional.pad(wave, (self.n_fft // 2, last - self.n_fft // 2 - wave.size(1)))
        bins = torch.stft(
            wave, self.n_fft, self.hop, win_length=len(window), window=window, center=False, return_complex=True
        )
        power = bins.real.square() + bins.imag.square()  # (B, n_fft / 2 + 1, T)
        return (power.transpose(1, 2) @ self.filters.to(window.dtype) + _QUIET).log()

    def normalised(self, spectrogram: Tensor, real: Tensor) -> Tensor:
        """Give each row mean 0 and variance 1 over its real frames and all bands. (B, T, M), (B, T) -> (B, T, M)"""
        weight = real[..., None].to(spectrogram.dtype) / (real.sum(1) * spectrogram.size(2)).clamp(min=1)[:, None, None]
        centred = spectrogram - (spectrogram * weight).sum((1, 2), keepdim=True)
        variance = (centred.square() * weight).sum((1, 2), keepdim=True)
        return centred * (variance + 1e-5).rsqrt()

    def augment(self, inputs: Tensor) -> Tensor:  # (B, N) -> (B, L)
        """Play each recording at a random speed, by linear interpolation between samples."""
        if not self.speed:
            return inputs
        n, longest, device = len(inputs), inputs.size(1), inputs.device
        rate = 1 + self.speed * (2 * torch.rand(n, 1, device=device).double() - 1)  # float32 is inexact after a minute
        lengths = (inputs != PAD_SAMPLE).sum(1, keepdim=True)
        at = torch.arange(int(longest / (1 - self.speed)) + 1, device=device) * rate  # (B, L)
        last = (lengths - 1).clamp(min=0)
        before = at.long().minimum(last)
        wave = inputs.masked_fill(inputs == PAD_SAMPLE, 0).to(torch.float32)
        share = (at - before).to(torch.float32)
        mixed = wave.gather(1, before) * (1 - share) + wave.gather(1, (before + 1).minimum(last)) * share
        return mixed.round().masked_fill(at > last, PAD_SAMPLE).to(inputs.dtype)

    def _frames_of(self, inputs: Tensor) -> Tensor:
        """Return True for frames that are centred on a real sample. (B, N) -> (B, T)"""
        return inputs[:, :: self.hop] != PAD_SAMPLE

    def _masked(self, x: Tensor, real: Tensor) -> Tensor:
        """Hide two random ranges of bands and two of time. The mean, 0, takes their place."""
        n, _, n_mels = x.shape
        keep = torch.ones(x.shape, dtype=torch.bool, device=x.device)
        for axis, sizes in ((1, real.sum(1)), (2, torch.full((n,), n_mels, device=x.device))):
            places = torch.arange(x.size(axis), device=x.device)
            for _ in range(_N_MASKS):
                width = torch.rand(n, device=x.device) * self.spec_augment * sizes
                start = torch.rand(n, device=x.device) * (sizes - width)
                hidden = (places >= start[:, None]) & (places < (start + width)[:, None])
                keep &= ~hidden.unsqueeze(3 - axis)
        return x * keep


def mel_filters(n_mels: int, n_fft: int, sample_rate: int) -> Tensor:
    """Return triangular filters whose centres are evenly spaced in mel: m = 2595 log10(1 + f / 700).

    -> (F, M), for n_fft / 2 + 1 = F frequencies. Each filter rises from its lower neighbour's centre to 1, and falls
    to the upper one's.

    Args:
        n_mels: the number of filters, M.
        n_fft: samples in a window of the Fourier transform.
        sample_rate: samples per second. The highest frequency is half of it.
    """
    frequency = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    top = 2595 * torch.log10(torch.tensor(1 + sample_rate / 2 / 700, dtype=torch.float64))
    edges = 700 * (10 ** (torch.linspace(0, 1, n_mels + 2, dtype=torch.float64) * top / 2595) - 1)
    rising = (frequency[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequency[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).to(torch.get_default_dtype())


def waveform(front: Frames, spectrogram: Tensor) -> Tensor:
    """Return samples from -1 to 1 with this log-mel spectrogram (Griffin & Lim 1984). (T, M) -> (N,)

    A spectrogram has no phases. The algorithm starts from random ones, and alternates between the sound that has
    these phases and the phases that this sound really has. The random numbers are the same for all spectrograms.
    """
    if len(spectrogram) < 2:
        return spectrogram.new_zeros(0)
    sizes = (front.n_fft, front.hop, len(front.window))
    size, generator = magnitudes(front, spectrogram), torch.Generator().manual_seed(0)
    angle = 2 * math.pi * torch.rand(size.shape, generator=generator)
    phases, before = torch.polar(torch.ones_like(size), angle), torch.zeros(size.shape, dtype=torch.complex64)
    for _ in range(_ROUNDS):
        wave = torch.istft(size * phases, *sizes, front.window)
        found = torch.stft(wave, *sizes, front.window, pad_mode="constant", return_complex=True)
        phases = found + _MOMENTUM * (found - before)
        phases, before = phases / phases.abs().clamp(min=1e-9), found
    return torch.istft(size * phases, *sizes, front.window)


def magnitudes(front: Frames, spectrogram: Tensor) -> Tensor:
    """Return the magnitude at each frequency of a log-mel spectrogram. (T, M) -> (F, T)

    The power between the centres of two bands is interpolated from the mean power in each. Then it's multiplied
    repeatedly so that the filters find the power of the spectrogram in it (Richardson 1972, Lucy 1974).
    """
    filters, bands = front.filters, (spectrogram.exp() - _QUIET).clamp(min=0).T  # (F, M), (M, T)
    power = filters @ (bands / filters.sum(0).clamp(min=_LEAST)[:, None])
    for _ in range(_SHARPER):
        ratio = bands / (filters.T @ power).clamp(min=_LEAST)
        power = power * (filters @ ratio) / filters.sum(1).clamp(min=_LEAST)[:, None]
    return power.sqrt()
