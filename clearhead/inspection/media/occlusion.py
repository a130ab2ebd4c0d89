"""Occlusion: hide each part of an image or recording in turn, and measure the drop in score (Zeiler & Fergus
2014, "Visualizing and Understanding Convolutional Networks")."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...config.front_geometry import SUBSAMPLING
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ...model.transformer import evaluation
from ..record.forward_pass import Pass
from ..record.uncompiled import uncompiled
from .media_input import front_of

_TOGETHER = 16  # hidden parts in a batch


@dataclass(frozen=True)
class Occlusion:
    """How far scores drop when parts of the input are hidden, compared with attention to these parts.

    Attributes:
        groups: the positions that each part consists of.
        rows: what was scored: the tokens of the answer, or the label.
        falls: the drop in each row's log-probability when a part is hidden, (R, G).
        attention: attention of each row to each part, averaged over heads, (R, G).
        rollout: the same, followed through all layers, (R, G).
    """

    groups: Sequence[Sequence[int]]
    rows: Sequence[str]
    falls: NDArray[np.float64]
    attention: NDArray[np.float64]
    rollout: NDArray[np.float64]

    @property
    def maps(self) -> tuple[NDArray[np.float64], ...]:
        """Drops (at least 0), attention and rollout, with the value of each part at all of its positions, (R, S)."""
        last, sizes = self.groups[-1][-1] + 1, [len(it) for it in self.groups]
        found = []
        for values in (self.falls.clip(0), self.attention, self.rollout):
            wide = np.zeros((len(values), last))
            wide[:, np.concatenate(self.groups)] = values.repeat(sizes, 1)
            found.append(wide)
        return tuple(found)

    @property
    def correlations(self) -> dict[str, float]:
        """The rank correlation of the score drops with attention and with rollout, over all rows and parts."""
        return {name: rank_correlation(self.falls, getattr(self, name)) for name in ("attention", "rollout")}

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("falls", "attention", "rollout")}
        groups = [list(it) for it in self.groups]
        return {"rows": list(self.rows), "groups": groups, **arrays, "rank_correlations": self.correlations}


def occluded_falls(forward: Pass, groups: Sequence[Sequence[int]]) -> Tensor:
    """Return how far each log-probability drops when a group of positions is hidden. -> (R, G)

    Hidden patches get the mean colour of the image, and hidden frames the mean of the spectrogram.

    Args:
        forward: the pass over an image or a recording.
        groups: the positions to hide together.
    """
    model, front = forward.model, front_of(forward)

    def scores(hidden: Tensor) -> Tensor:  # (B, S) -> (B, R)
        with hiding(front, hidden):
            return forward.log_probabilities(len(hidden))

    hidden = torch.zeros(len(groups), len(forward.read), dtype=torch.bool, device=forward.inputs[0].device)
    for number, group in enumerate(groups):
        hidden[number, list(group)] = True
    with uncompiled(model), evaluation(model), torch.inference_mode():
        whole = scores(torch.zeros_like(hidden[:1]))
        found = torch.cat([scores(some) for some in hidden.split(_TOGETHER)])
    return (whole - found).T.double().cpu()


@contextmanager
def hiding(front: Patches | Frames, hidden: Tensor) -> Iterator[None]:
    """Hide positions of each row of a batch inside the `with` block. (B, S)"""

    def patches(_part: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:  # (B, S, N)
        x = inputs[0]
        channels = x.unflatten(-1, (n_channels, -1))
        mean = channels.mean((1, 3), keepdim=True).expand_as(channels).flatten(-2)
        return torch.where(hidden[:, -x.size(1) :, None], mean, x)  # the class token has no pixels

    def frames(_part: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:  # (B, M, T), with mean 0
        x = inputs[0]
        wide = hidden.repeat_interleave(SUBSAMPLING, 1)  # frame 4n is the middle of position n
        wide = nn.functional.pad(wide[:, SUBSAMPLING // 2 :], (0, SUBSAMPLING))[:, : x.size(2)]
        return x.masked_fill(wide[:, None], 0)

    n_channels = front.shape[0] if isinstance(front, Patches) else 0
    part, hide = (front.project, patches) if isinstance(front, Patches) else (front.convolutions[0], frames)
    with part.register_forward_pre_hook(hide):
        yield


def rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation of all values, from -1 to 1. It's 0 if one of them is constant."""
    first, second = (_ranks(it.ravel()) for it in (one, other))
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / scale if scale else 0.0


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    return (last - (counts - 1) / 2)[places]
