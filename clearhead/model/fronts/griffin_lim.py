"""Spectrograms back to sound: the inverse of `Frames.spectrogram`, with phases found by iteration."""

import math

import torch
from torch import Tensor

from .frames import QUIET, Frames

_ROUNDS = 32  # more are hardly audible
_SHARPER, _LEAST = 20, 1e-9  # rounds to find the power at each frequency, and a number to divide by
_MOMENTUM = 0.99  # of the fast algorithm (Perraudin, Balazs & Søndergaard 2013)


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
    filters, bands = front.filters, (spectrogram.exp() - QUIET).clamp(min=0).T  # (F, M), (M, T)
    power = filters @ (bands / filters.sum(0).clamp(min=_LEAST)[:, None])
    for _ in range(_SHARPER):
        ratio = bands / (filters.T @ power).clamp(min=_LEAST)
        power = power * (filters @ ratio) / filters.sum(1).clamp(min=_LEAST)[:, None]
    return power.sqrt()
