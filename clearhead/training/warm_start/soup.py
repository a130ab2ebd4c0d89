"""Model soup: average runs that started from the same weights (Wortsman et al. 2022).

Such runs end in the same basin of the loss, so the mean of their weights is often better than any of them.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from torch import Tensor

from ...folder.model_folder import load_model_folder
from ..averaging import mean_weights
from ..trainer import Trainer


def average_runs(folders: Sequence[Path], allowed: bool | Collection[str]) -> dict[str, Tensor]:
    """Return the mean of the weights in model folders, which may name the `allowed` custom code."""
    weights, _ = mean_weights(load_model_folder(it, allow_custom_code=allowed).weights for it in folders)
    return weights


def try_soup(trainer: Trainer, others: Sequence[Path], allowed: bool | Collection[str]) -> None:
    """Average the kept weights of this run and of the finished runs `others`, and keep the mean if it scores best."""
    out, state, count = trainer.run.folder.path, trainer.state, len(others) + 1
    is_kept = state.mean == f"{count} runs"  # an earlier process was killed after keeping the mean
    weights = average_runs([out] if is_kept else [*others, out], allowed)
    trainer.selection.try_mean(state, weights, count, "runs")
