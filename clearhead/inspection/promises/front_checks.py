"""Promise that the front ends of images and audio compute their formulas, written out."""

import math

import torch
from torch import Tensor, nn

from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from .check import Measured, Promise, Skip
from .rounding import furthest
from .subject import Case, front_of, numbered


def _embeddings(case: Case) -> Measured:
    """Compare the front end's embeddings with those of its formula."""
    front, source = front_of(case.model), case.inputs.source
    assert source is not None
    if isinstance(front, Patches):
        expected = _embedded_patches(front, source)
    elif isinstance(front, Frames):
        expected = _embedded_frames(front, source)
    else:
        raise Skip("the formula of a custom front end isn't known")

    def embedded(model: nn.Module) -> list[Tensor]:
        return list(front_of(model)(source))  # type: ignore[misc]

    yield case.bound(embedded), furthest(embedded(case.model), list(expected), numbered(len(source), "input"))


FRONT = Promise(
    "front end = formula", "the front end computes its formula, written out for each patch or frame", _embeddings
)


def _embedded_patches(front: Patches, images: Tensor) -> Tensor:
    """Return W p + b of every patch p, row by row, whose pixels are scaled to -1 ... 1. (B, C, H, W) -> (B, S, D)"""
    size, weight, bias = front.patch_size, front.project.weight, front.project.bias
    pixels = images.to(weight.dtype) / 127.5 - 1
    _, _, height, width = pixels.shape
    found = [] if front.class_token is None else [front.class_token.expand(len(pixels), -1)]
    for top in range(0, height, size):
        for left in range(0, width, size):
            patch = pixels[:, :, top : top + size, left : left + size].flatten(1)
            found.append((weight * patch[:, None]).sum(-1) + (0 if bias is None else bias))
    return torch.stack(found, 1)


def _embedded_frames(front: Frames, recordings: Tensor) -> Tensor:
    """Return the convolutions of a log-mel spectrogram by the discrete Fourier transform. (B, N) -> (B, S, D)"""
    padding = recordings == front.pad
    real = ~padding[:, :: front.hop]  # frames centred on a sample
    x = torch.zeros(
        len(recordings), real.size(1), front.filters.size(1), dtype=front.window.dtype, device=recordings.device
    )
    wave = recordings.masked_fill(padding, 0).to(x.dtype) / 2**15
    for t in range(real.size(1)):
        x[:, t] = _log_mel(front, wave, t * front.hop)
    for row, kept in zip(x, real):  # mean 0 and variance 1 of each recording
        values = row[kept]
        row.sub_(values.mean()).div_((values.var(correction=0) + 1e-5).sqrt())
    for convolution in front.convolutions:
        x, real = _convolved(convolution, x * real[..., None]), real[:, ::2]  # type: ignore[arg-type]
    return x


def _log_mel(front: Frames, wave: Tensor, centre: int) -> Tensor:
    """Return the logarithm of the power in each band around a sample. (B, N) -> (B, M)"""
    count, n_fft = len(front.window), front.n_fft
    first = centre - n_fft // 2 + (n_fft - count) // 2  # the window is in the middle of the transform
    at = torch.arange(first, first + count, device=wave.device)
    inside = (at >= 0) & (at < wave.size(1))
    samples = wave[:, at.clamp(0, wave.size(1) - 1)] * inside * front.window
    frequencies = torch.arange(n_fft // 2 + 1, device=wave.device, dtype=wave.dtype)
    angles = 2 * math.pi / n_fft * frequencies[:, None] * torch.arange(count, device=wave.device)
    power = (samples @ angles.cos().T).square() + (samples @ angles.sin().T).square()
    return (power @ front.filters + 1e-6).log()


def _convolved(convolution: nn.Conv1d, x: Tensor) -> Tensor:
    """Return gelu(b + sum over j of W_j x_(2t + j - 1)). (B, T, C) -> (B, ceil(T / 2), D)"""
    assert convolution.bias is not None
    count = -(-x.size(1) // 2)
    padded = nn.functional.pad(x, (0, 0, 1, 2))
    total = convolution.bias.expand(len(x), count, -1)
    for j in range(3):
        total = total + padded[:, j : j + 2 * count : 2] @ convolution.weight[:, :, j].T
    return total * 0.5 * (1 + torch.erf(total / math.sqrt(2)))
