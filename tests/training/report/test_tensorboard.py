"""What TensorBoard would read of a run."""

import sys
from pathlib import Path

import pytest

from clearhead.api import train
from clearhead.errors import ConfigError
from clearhead.training.report.observers import TensorBoard
from tests.builders import quiet

# its own imports warn of what they will drop one day
pytestmark = pytest.mark.filterwarnings("ignore")


def events(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Each curve as (step, value)."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulators.EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    return {tag: [(it.step, it.value) for it in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_run_writes_its_curves(toy) -> None:
    seen: list[dict] = []
    config = toy.config({"train.tensorboard": True})
    run = train(config, toy.folder / "run", say=quiet, on_step=seen.append)
    curves = events(run)
    assert [step for step, _ in curves["train/loss"]] == list(range(1, 13))
    assert [value for _, value in curves["train/loss"]] == pytest.approx([record["loss"] for record in seen])
    assert [step for step, _ in curves["valid/bleu"]] == [5, 10, 12]
    assert curves.keys() >= {"train/lr", "train/grad_norm", "train/tokens_per_second", "valid/loss"}
    assert all(value > 0 for _, value in curves["train/tokens_per_second"])
    assert [step for step, _ in curves["train/tokens_per_second"]] == [2, 3, 4, 5, 7, 8, 9, 10, 12]  # 6 had to wait


def test_a_resumed_run_goes_on_where_its_checkpoint_is_and_a_new_one_begins_anew(tmp_path: Path) -> None:
    record = {"loss": 1.0, "lr": 0.1, "grad_norm": 2.0, "tokens": 5, "seconds": 0.5}
    with TensorBoard(tmp_path, after=0) as board:
        for step in range(1, 5):
            board.on_step({**record, "step": step, "seconds": 0.5 * step})
    with TensorBoard(tmp_path, after=2) as board:
        board.on_step({**record, "step": 3, "loss": 9.0})
    assert events(tmp_path)["train/loss"] == [(1, 1.0), (2, 1.0), (3, 9.0)]
    with TensorBoard(tmp_path, after=0) as board:
        board.on_step({**record, "step": 1, "loss": 7.0})
    assert events(tmp_path)["train/loss"] == [(1, 7.0)]


def test_the_mean_of_checkpoints_has_curves_of_its_own(tmp_path: Path) -> None:
    record = {"step": 8, "epoch": 0, "seconds": 1.0}
    with TensorBoard(tmp_path, after=0) as board:
        board.on_eval({**record, "bleu": 3.0})
        board.on_eval({**record, "averaged": 2, "bleu": 4.0})
    assert events(tmp_path) == {"valid/bleu": [(8, 3.0)], "mean/bleu": [(8, 4.0)]}


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError) as caught:
        TensorBoard(tmp_path, after=0)
    assert (caught.value.name, caught.value.fix) == ("train.tensorboard", "install it with: pip install tensorboard")


def test_it_is_missed_before_anything_is_made(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match="tensorboard"):
        train(toy.config({"train.tensorboard": True}), toy.folder / "run", say=quiet)
    assert not (toy.folder / "run").exists()
