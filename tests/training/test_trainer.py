"""The loop on a model of a few weights, where everything that it does can be computed by other means."""

import io
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.config import TrainConfig
from clearhead.errors import TrainingError
from clearhead.text.batches import Batches
from clearhead.training.checkpoint import RunFolder
from clearhead.training.metrics import MetricsLog, Progress, read_metrics
from clearhead.training.model_folder import model_files, weights_from_bytes
from clearhead.training.optimizer import optimizer_tensors
from clearhead.training.schedule import Schedule
from clearhead.training.signals import StopSignals
from clearhead.training.trainer import Trainer, autocast, seed_step

LENGTHS = np.array([1, 1, 2, 2, 3, 3, 4])
SETTINGS: dict[str, Any] = {
    "steps": 8,
    "warmup": 2,
    "lr": 0.1,
    "schedule": "linear",
    "optimizer": "adam",
    "log_every": 1,
    "keep": 20,
}
SETTINGS |= {"eval_every": 2, "save_every": 4, "precision": "fp32", "threads": 1, "device": "cpu"}


class Line(nn.Module):
    """y = dropout(a x) + b for x of two numbers."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.slope = nn.Linear(2, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.shift = nn.Parameter(torch.zeros(1))
        with torch.no_grad():
            self.slope.weight.copy_(torch.tensor([[0.5, -0.25]]))

    def forward(self, x: Tensor) -> Tensor:  # (B, 2) -> (B, 1)
        return self.dropout(self.slope(x)) + self.shift


X = torch.linspace(-1, 1, 2 * len(LENGTHS)).view(-1, 2)
Y = X @ torch.tensor([[2.0], [1.0]]) + 3


def squares(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
    """Squared errors, each counted as often as the example is long."""
    lengths = torch.from_numpy(LENGTHS[rows])
    errors = (model(X[rows]) - Y[rows]).float().square().squeeze(1)
    return (errors * lengths).sum(), int(lengths.sum())


def trainer(
    changes: Mapping[str, Any] | None = None, *, model: nn.Module | None = None, loss: Callable = squares, **others: Any
) -> Trainer:
    config = TrainConfig(**{**SETTINGS, **(changes or {})})
    return Trainer(model or Line(), loss, Batches(LENGTHS, LENGTHS, 6, config.seed), config, **others)


@pytest.fixture
def folder(tmp_path: Path) -> Iterable[RunFolder]:
    with RunFolder.create(tmp_path / "run") as folder:
        folder.write_files(model_files(config={}, tokenizer="{}"))
        yield folder


def run(trainer: Trainer, folder: RunFolder) -> list[dict[str, Any]]:
    """Train to the end; what was logged."""
    with MetricsLog(folder.path / "metrics.jsonl", after=trainer.state.step) as log:
        trainer.run(folder, log, Progress(8, stream=io.StringIO()), StopSignals())
    return read_metrics(folder.path / "metrics.jsonl")


def written(folder: RunFolder) -> dict[str, Tensor]:
    path = folder.path / "model.safetensors"
    return weights_from_bytes(path, path.read_bytes())


def steps_of(folder: RunFolder) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (folder.path / "checkpoints").iterdir())


# --- steps


def test_each_epoch_sees_every_example_once_in_the_order_of_its_own(folder) -> None:
    seen: list[list[int]] = []

    def watched(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        seen.append(rows.tolist())
        return squares(model, rows)

    it = trainer({"steps": 12, "seed": 3}, loss=watched)
    run(it, folder)
    batches = Batches(LENGTHS, LENGTHS, 6, seed=3)
    epochs = [rows.tolist() for epoch in range(12) for rows in batches.epoch(epoch)]
    assert seen == epochs[:12]
    n = len(batches.epoch(0))
    assert (it.state.epoch, it.state.batch) == divmod(12, n)
    assert len(batches.epoch(0)[-1]) != len(batches.epoch(0)[0])  # a last batch that is not full was among them


def test_the_logged_loss_is_the_mean_over_the_tokens_since_the_last_line(folder) -> None:
    it = trainer({"lr": 1e-12, "log_every": 3, "eval_every": 8})
    records = [record for record in run(it, folder) if "loss" in record]
    order = [rows for epoch in range(3) for rows in Batches(LENGTHS, LENGTHS, 6).epoch(epoch)]
    assert [record["step"] for record in records] == [3, 6, 8]  # the last step has a line in any case
    for record, batches in zip(records, (order[0:3], order[3:6], order[6:8])):
        sums = [squares(Line(), rows) for rows in batches]
        tokens = sum(n for _, n in sums)
        assert record["tokens"] == tokens
        assert record["loss"] == pytest.approx(sum(float(loss.detach()) for loss, _ in sums) / tokens, rel=1e-6)


def test_every_step_has_the_rate_of_the_schedule(folder) -> None:
    records = [record for record in run(trainer({"schedule": "cosine"}), folder) if "lr" in record]
    schedule = Schedule("cosine", 0.1, 2, 8)
    assert [record["lr"] for record in records] == [schedule(step) for step in range(1, 9)]


def test_the_first_update_is_adams_with_the_mean_gradient(folder) -> None:
    it = trainer({"steps": 1, "warmup": 0, "schedule": "constant", "clip": 0.0, "eps": 1e-3})
    rows = Batches(LENGTHS, LENGTHS, 6).epoch(0)[0]
    model = Line()
    total, n_tokens = squares(model, rows)
    (total / n_tokens).backward()
    (record, *_) = run(it, folder)
    gradients = [p.grad for p in model.parameters()]
    for before, after, gradient in zip(model.parameters(), it.model.parameters(), gradients):
        expected = before - 0.1 * gradient / (gradient.abs() + 1e-3)  # the bias corrections of step 1 cancel
        torch.testing.assert_close(after, expected)
    assert record["grad_norm"] == pytest.approx(math.sqrt(sum(float(g.square().sum()) for g in gradients)))


@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
def test_the_gradient_is_clipped_by_its_norm_over_all_weights(folder, clip: float) -> None:
    it = trainer({"steps": 1, "clip": clip})
    norm = run(it, folder)[0]["grad_norm"]
    means = [t for name, t in optimizer_tensors(it.optimizer, it.model).items() if name.endswith("exp_avg")]
    used = math.sqrt(sum(float(mean.square().sum()) for mean in means)) / (1 - it.config.beta1)
    assert norm > 1
    assert used == pytest.approx(0.5 if clip == 0.5 else norm, rel=1e-5)


def test_the_randomness_of_a_step_is_a_function_of_seed_and_step_alone() -> None:
    def draw(*numbers: int) -> list[float]:
        seed_step(*numbers)
        return torch.rand(3).tolist()

    first = draw(1, 2)
    torch.rand(5)
    assert draw(1, 2) == first
    others = [draw(2, 1), draw(1, 3), draw(2, 2), draw(1, 2, 1), draw(1, 2, 0, 1)]
    assert all(other != first for other in others)
    assert len({tuple(other) for other in others}) == len(others)


def test_equal_seeds_give_equal_runs_and_others_do_not(folder) -> None:
    def weights(seed: int) -> list[float]:
        it = trainer({"seed": seed}, model=Line(dropout=0.5))
        run(it, folder)
        return it.model.slope.weight.flatten().tolist()

    assert weights(0) == weights(0) != weights(1)


def test_the_loss_falls_to_nothing_where_it_can(folder) -> None:
    records = run(
        trainer({"steps": 200, "schedule": "cosine", "warmup": 10} | {"eval_every": 200, "save_every": 200}), folder
    )
    assert records[0]["loss"] > 5 and records[-1]["loss"] < 1e-3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_products_are_in_the_precision_that_is_asked_for_and_weights_in_float32(folder, precision: str) -> None:
    kinds = set()

    def watched(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        kinds.add(model.slope(X[rows]).dtype)
        return squares(model, rows)

    it = trainer({"precision": precision}, loss=watched)
    assert run(it, folder)[-1]["loss"] < 20
    assert kinds == {torch.bfloat16 if precision == "bf16" else torch.float32}
    assert {p.dtype for p in it.model.parameters()} == {torch.float32}
    with autocast(torch.device("cpu"), "fp32"):
        assert not torch.is_autocast_enabled("cpu")


# --- what is not a number


def raises(it: Trainer, folder: RunFolder, message: str) -> None:
    """The run ends with this message, before an update and after the checkpoints of before."""
    before = {name: tensor.clone() for name, tensor in it.model.state_dict().items()}
    with pytest.raises(TrainingError, match=message) as caught:
        run(it, folder)
    said = str(caught.value)
    assert "Nothing was updated, and the last checkpoint is kept. Try a lower --train.lr" in said
    for name, tensor in it.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    assert all(p.grad is None for p in it.model.parameters())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_weight_that_is_not_finite_is_named(folder, value: float) -> None:
    it = trainer()
    with torch.no_grad():
        it.model.slope.weight[0, 1] = value
    raises(it, folder, r"the loss is (nan|inf) at step 1: not finite are the weights slope\.weight\.")


def test_of_many_weights_that_are_not_finite_three_are_named(folder) -> None:
    class Many(Line):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ParameterList(torch.full((1,), math.nan) for _ in range(5))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + sum(self.parts)

    message = r"not finite are the weights parts\.0, parts\.1, parts\.2 and 2 more"
    raises(trainer(model=Many()), folder, message)


def test_the_part_is_named_in_which_a_number_became_too_large(folder) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = (nn.Sequential(nn.Linear(2, 2)) for _ in range(3))
            for p in self.parameters():
                nn.init.constant_(p, 2.0)

        def forward(self, x: Tensor) -> Tensor:
            x = self.second(self.first(0 * x) * 1e38)  # 2e38 is a number, 2 * 2e38 + 2 * 2e38 is none
            return self.third(x).sum(1, keepdim=True)

    raises(trainer(model=Deep()), folder, r"at step 1: it arose in second\.0\.")


def test_a_loss_that_is_not_finite_although_every_part_is_is_called_so(folder) -> None:
    def worst(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        loss, n_tokens = squares(model, rows)
        return loss / 0, n_tokens

    raises(
        trainer(loss=worst), folder, "the loss is inf at step 1: every part's output is finite, so it arose in the loss"
    )


def test_a_gradient_that_is_not_finite_is_named_by_its_weights(folder) -> None:
    def steep(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        return model.shift.square().sqrt().sum() + model(X[rows]).sum(), 1  # the slope of sqrt at 0 is infinite

    raises(trainer(loss=steep), folder, r"but its gradient nan at step 1: .* not finite are the gradients of shift\.")


def test_a_norm_that_is_too_large_although_each_gradient_is_finite_is_called_so(folder) -> None:
    def large(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        return (model.slope.weight * 3e38).sum(), 1

    raises(trainer(loss=large), folder, "its gradient inf at step 1: each is finite, but the norm of all is too large")


def test_what_was_saved_before_a_loss_that_is_not_finite_is_kept(folder) -> None:
    def breaks(model: nn.Module, rows: np.ndarray) -> tuple[Tensor, int]:
        loss, n_tokens = squares(model, rows)
        return loss * (math.nan if it.state.step == 7 else 1), n_tokens

    it = trainer({"save_every": 3}, loss=breaks)
    with pytest.raises(TrainingError, match="the loss is nan at step 7"):
        run(it, folder)
    assert steps_of(folder) == [3, 6]
    again = trainer({"save_every": 3})
    again.restore(folder.latest_checkpoint())
    assert again.state.step == 6
    run(again, folder)
    assert again.state.step == 8


@pytest.mark.parametrize(("changes", "saved"), [({"save_every": 3}, [3]), ({"save_every": 2, "eval_every": 5}, [2, 4])])
def test_weights_that_an_update_made_infinite_are_neither_scored_nor_saved(folder, changes, saved, monkeypatch) -> None:
    it = trainer(changes, evaluate=lambda: {"bleu": 1.0})
    update = it.optimizer.step

    def overflow() -> None:
        update()
        if it.state.step == saved[-1] + 1:
            it.model.slope.weight.data.fill_(math.inf)

    monkeypatch.setattr(it.optimizer, "step", overflow)
    monkeypatch.setattr(it, "loss", lambda model, rows: (model.shift.square().sum(), 1))  # it does not notice
    message = rf"after step {saved[-1] + 1} the weights slope\.weight are not finite\. They are not saved, and the last"
    with pytest.raises(TrainingError, match=message):
        run(it, folder)
    assert steps_of(folder) == saved
    if it.state.evaluated:
        assert written(folder)["slope.weight"].isfinite().all()


# --- evaluations


@pytest.mark.parametrize(
    ("best", "scores", "chosen"),
    [
        ("bleu", [1.0, 3.0, 2.0, 0.0], 4),
        ("bleu", [0.0, 0.0, 0.0, 0.0], 8),  # of equal ones the newest
        ("bleu", [5.0, 9.0, 9.0, 8.0], 6),
        ("bleu", [math.nan, 1.0, math.nan, 0.5], 4),
        ("bleu", [1.0, math.nan, math.nan, 0.5], 2),
        ("loss", [3.0, 1.0, 2.0, 4.0], 4),
        ("loss", [math.inf, math.inf, 7.0, math.inf], 6),
        ("loss", [math.nan, math.nan, math.nan, math.nan], 8),
    ],
)
def test_the_folder_has_the_weights_of_the_best_evaluation(folder, best: str, scores: list[float], chosen: int) -> None:
    at_step: dict[int, Tensor] = {}

    def evaluate() -> dict[str, float]:
        at_step[it.state.step] = it.model.slope.weight.detach().clone()
        value = scores[len(at_step) - 1]
        return {"bleu": value, "loss": 1.0} if best == "bleu" else {"bleu": 1.0, "loss": value}

    it = trainer({"best": best, "schedule": "constant"}, evaluate=evaluate)
    records = [record for record in run(it, folder) if f"valid_{best}" in record]
    assert [record["step"] for record in records] == list(at_step) == [2, 4, 6, 8]
    np.testing.assert_array_equal([record[f"valid_{best}"] for record in records], scores)
    assert it.state.best_step == chosen
    assert torch.equal(written(folder)["slope.weight"], at_step[chosen])
    assert len({tuple(weights.flatten().tolist()) for weights in at_step.values()}) == 4


def test_without_an_evaluation_the_folder_has_the_newest_weights(folder) -> None:
    it = trainer({"eval_every": 3})
    assert not any(name.startswith("valid_") for record in run(it, folder) for name in record)
    assert it.state.best_step == 8 and it.state.best is None
    assert torch.equal(written(folder)["slope.weight"], it.model.slope.weight)


@pytest.mark.parametrize(("eval_every", "expected"), [(3, [3, 6, 8]), (4, [4, 8]), (100, [8])])
def test_the_last_step_is_evaluated_once(folder, eval_every: int, expected: list[int]) -> None:
    steps: list[int] = []

    def evaluate() -> dict[str, float]:
        steps.append(it.state.step)
        return {"bleu": 1.0}

    it = trainer({"eval_every": eval_every}, evaluate=evaluate)
    run(it, folder)
    assert steps == expected


# --- checkpoints


@pytest.mark.parametrize(("save_every", "steps"), [(1, list(range(1, 9))), (3, [3, 6, 8]), (4, [4, 8]), (50, [8])])
def test_checkpoints_are_saved_at_intervals_and_at_the_end(folder, save_every: int, steps: list[int]) -> None:
    run(trainer({"save_every": save_every}), folder)
    assert steps_of(folder) == steps


def test_the_newest_checkpoints_are_kept(folder) -> None:
    run(trainer({"save_every": 1, "keep": 3}), folder)
    assert steps_of(folder) == [6, 7, 8]


@pytest.mark.parametrize("step", range(1, 8))
def test_from_any_checkpoint_a_run_goes_on_bit_for_bit(folder, tmp_path: Path, step: int) -> None:
    expected = trainer({"save_every": 1}, model=Line(dropout=0.5))
    records = run(expected, folder)
    again = trainer({"save_every": 1}, model=Line(dropout=0.5))
    path = folder.path / "checkpoints" / f"step-{step:08d}"
    with RunFolder.create(tmp_path / "again") as other:
        other.write_files(model_files(config={}))
        (other.path / "checkpoints").mkdir()
        (folder.path / "metrics.jsonl").rename(other.path / "metrics.jsonl")
        path.rename(other.path / "checkpoints" / path.name)
        again.restore(other.latest_checkpoint())
        assert again.state.step == step
        found = run(again, other)
    assert all(torch.equal(a, b) for a, b in zip(expected.model.parameters(), again.model.parameters()))
    for record in (*records, *found):
        record.pop("seconds", None)
    assert found == records


def test_a_checkpoint_of_other_data_is_refused_and_changes_nothing(folder) -> None:
    run(trainer(constants={"the training data": "a", "the validation data": "b"}), folder)
    other = trainer(constants={"the training data": "a", "the validation data": "c"})
    before = [p.clone() for p in other.model.parameters()]
    message = "the validation data are not those that the run was begun with; .*begin anew with another --out"
    with pytest.raises(TrainingError, match=message):
        other.restore(folder.latest_checkpoint())
    assert all(torch.equal(a, b) for a, b in zip(before, other.model.parameters()))
    assert other.state.step == 0
