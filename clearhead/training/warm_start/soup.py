"""Model soup: average runs that started from the same weights (Wortsman et al. 2022).

Such runs end in the same basin of the loss, so the mean of their weights is often better than any of them.
"""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from ...folder.model_folder import load_model_folder
from ..averaging import mean_weights
from ..trainer import Trainer


def average_runs(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in model folders."""
    weights, _ = mean_weights(load_model_folder(it, allow_custom_code=True).weights for it in folders)
    return weights


def try_soup(trainer: Trainer, others: Sequence[Path]) -> None:
    """Average the kept weights of this run and of the finished runs `others`, and keep the mean if it scores best."""
    out, state, count = trainer.run.folder.path, trainer.state, len(others) + 1
    is_kept = state.mean == f"{count} runs"  # an earlier process was killed after keeping the mean
    weights = load_model_folder(out, allow_custom_code=True).weights if is_kept else average_runs([*others, out])
    trainer.selection.try_mean(state, weights, count, "runs")
