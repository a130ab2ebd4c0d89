"""The loop on a model of a few weights, where everything that it does can be computed by other means."""

import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.config import TrainConfig
from clearhead.data.batches import Batches
from clearhead.errors import TrainingError
from clearhead.folder.checkpoint import Checkpoint, RunFolder, read_checkpoint
from clearhead.folder.model_folder import model_files, weights_from_bytes
from clearhead.training.distributed.processes import Processes
from clearhead.training.optimizers import optimizer_tensors
from clearhead.training.report.metrics import MetricsLog, read_metrics
from clearhead.training.report.progress import Progress
from clearhead.training.schedule import Schedule
from clearhead.training.signals import StopSignals
from clearhead.training.state import Run
from clearhead.training.trainer import Objective, Trainer
from clearhead.training.update import _seed_step, autocast

DIGESTS = {"the training data": "a", "the validation data": "b"}
LENGTHS = np.array([1, 1, 2, 2, 3, 3, 4])
SETTINGS: dict[str, Any] = {
    "steps": 8,
    "warmup": 2,
    "lr": 0.1,
    "schedule": "linear",
    "optimizer": "adam",
    "log_every": 1,
    "best": "bleu",
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


def squares(model: nn.Module, rows: np.ndarray) -> Tensor:
    """Squared errors, each counted as often as the example is long."""
    lengths = torch.from_numpy(LENGTHS[rows])
    errors = (model(X[rows]) - Y[rows]).float().square().squeeze(1)
    return (errors * lengths).sum()


def trainer(
    folder: RunFolder,
    changes: Mapping[str, Any] | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    model: nn.Module | None = None,
    loss: Callable = squares,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    **surroundings: Any,
) -> Trainer:
    """A trainer that is ready for its first step, or for the one after a checkpoint."""
    config = TrainConfig(**{**SETTINGS, **(changes or {})})
    log = MetricsLog(folder.path / "metrics.jsonl", after=checkpoint.step if checkpoint else 0)
    surrounding = Run(folder, log, Progress(8, stream=io.StringIO()), StopSignals(), **surroundings)
    objective = Objective(Batches(LENGTHS, LENGTHS, 6, config.seed), loss, evaluate, DIGESTS)
    it = Trainer(surrounding, model or Line(), objective, config)
    if checkpoint:
        it.restore(checkpoint, folder.kept())
    return it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterable[RunFolder]:
    monkeypatch.setattr("clearhead.training.trainer.KEPT", 20)
    with RunFolder.create(tmp_path / "run") as folder:
        folder.write_files(model_files(config={}, tokenizer="{}"))
        yield folder


def run(trainer: Trainer) -> list[dict[str, Any]]:
    """Train to the end; what was logged."""
    with trainer.run.log:
        trainer.train()
    return read_metrics(trainer.run.folder.path / "metrics.jsonl")


def written(folder: RunFolder) -> dict[str, Tensor]:
    path = folder.path / "model.safetensors"
    return weights_from_bytes(path, path.read_bytes())


def steps_of(folder: RunFolder) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (folder.path / "checkpoints").iterdir())


# --- steps


def test_each_epoch_sees_every_example_once_in_the_order_of_its_own(folder) -> None:
    seen: list[list[int]] = []

    def watched(model: nn.Module, rows: np.ndarray) -> Tensor:
        seen.append(rows.tolist())
        return squares(model, rows)

    it = trainer(folder, {"steps": 12, "seed": 3}, loss=watched)
    run(it)
    batches = Batches(LENGTHS, LENGTHS, 6, seed=3)
    epochs = [rows.tolist() for epoch in range(12) for rows in batches.epoch(epoch)]
    assert seen == epochs[:12]
    n = len(batches.epoch(0))
    assert (it.state.epoch, it.state.batch) == divmod(12, n)
    assert len(batches.epoch(0)[-1]) != len(batches.epoch(0)[0])  # a last batch that is not full was among them


def test_the_logged_loss_is_the_mean_over_the_tokens_since_the_last_line(folder) -> None:
    it = trainer(folder, {"lr": 1e-12, "log_every": 3, "eval_every": 8})
    records = [record for record in run(it) if "loss" in record]
    order = [rows for epoch in range(3) for rows in Batches(LENGTHS, LENGTHS, 6).epoch(epoch)]
    assert [record["step"] for record in records] == [3, 6, 8]  # the last step has a line in any case
    for record, batches in zip(records, (order[0:3], order[3:6], order[6:8])):
        sums = [float(squares(Line(), rows).detach()) for rows in batches]
        tokens = sum(int(LENGTHS[rows].sum()) for rows in batches)
        assert record["tokens"] == tokens
        assert record["loss"] == pytest.approx(sum(sums) / tokens, rel=1e-6)


def test_every_step_has_the_rate_of_the_schedule(folder) -> None:
    records = [record for record in run(trainer(folder, {"schedule": "cosine"})) if "lr" in record]
    schedule = Schedule("cosine", 0.1, 2, 8)
    assert [record["lr"] for record in records] == [schedule(step) for step in range(1, 9)]


def test_the_first_update_is_adams_with_the_mean_gradient(folder) -> None:
    it = trainer(folder, {"steps": 1, "warmup": 0, "schedule": "constant", "clip": 0.0, "adam": (0.9, 0.98, 1e-3)})
    rows = Batches(LENGTHS, LENGTHS, 6).epoch(0)[0]
    model = Line()
    (squares(model, rows) / int(LENGTHS[rows].sum())).backward()
    (record, *_) = run(it)
    gradients = [p.grad for p in model.parameters()]
    for before, after, gradient in zip(model.parameters(), it.model.parameters(), gradients):
        expected = before - 0.1 * gradient / (gradient.abs() + 1e-3)  # the bias corrections of step 1 cancel
        torch.testing.assert_close(after, expected)
    assert record["grad_norm"] == pytest.approx(math.sqrt(sum(float(g.square().sum()) for g in gradients)))


@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
def test_the_gradient_is_clipped_by_its_norm_over_all_weights(folder, clip: float) -> None:
    it = trainer(folder, {"steps": 1, "clip": clip})
    norm = run(it)[0]["grad_norm"]
    means = [t for name, t in optimizer_tensors(it.update.optimizer, it.model).items() if name.endswith("exp_avg")]
    used = math.sqrt(sum(float(mean.square().sum()) for mean in means)) / (1 - it.config.adam[0])
    assert norm > 1
    assert used == pytest.approx(0.5 if clip == 0.5 else norm, rel=1e-5)


def test_the_randomness_of_a_step_is_a_function_of_seed_and_step_alone() -> None:
    def draw(*numbers: int) -> list[float]:
        _seed_step(*numbers)
        return torch.rand(3).tolist()

    first = draw(1, 2)
    torch.rand(5)
    assert draw(1, 2) == first
    others = [draw(2, 1), draw(1, 3), draw(2, 2), draw(1, 2, 1), draw(1, 2, 2)]
    assert all(other != first for other in others)
    assert len({tuple(other) for other in others}) == len(others)


def test_the_randomness_of_a_step_is_that_of_every_run_before() -> None:
    _seed_step(1, 2, 3)
    expected = np.random.SeedSequence([1, 2, 0, 3]).generate_state(1, np.uint64)[0]
    assert torch.initial_seed() == int(expected)


def test_equal_seeds_give_equal_runs_and_others_do_not(folder) -> None:
    def weights(seed: int) -> list[float]:
        it = trainer(folder, {"seed": seed}, model=Line(dropout=0.5))
        run(it)
        return it.model.slope.weight.flatten().tolist()

    assert weights(0) == weights(0) != weights(1)


def test_the_loss_falls_to_nothing_where_it_can(folder) -> None:
    changes = {"steps": 200, "schedule": "cosine", "warmup": 10, "eval_every": 200, "save_every": 200}
    records = run(trainer(folder, changes))
    assert records[0]["loss"] > 5 and records[-1]["loss"] < 1e-3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_products_are_in_the_precision_that_is_asked_for_and_weights_in_float32(folder, precision: str) -> None:
    kinds = set()

    def watched(model: nn.Module, rows: np.ndarray) -> Tensor:
        kinds.add(model.slope(X[rows]).dtype)
        return squares(model, rows)

    it = trainer(folder, {"precision": precision}, loss=watched)
    assert run(it)[-1]["loss"] < 20
    assert kinds == {torch.bfloat16 if precision == "bf16" else torch.float32}
    assert {p.dtype for p in it.model.parameters()} == {torch.float32}
    with autocast(torch.device("cpu"), "fp32"):
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("accumulate", [2, 3])
def test_accumulated_batches_make_the_step_of_one_large_batch(folder, tmp_path: Path, accumulate: int) -> None:
    it = trainer(folder, {"steps": 1, "accumulate": accumulate, "adam": (0.9, 0.98, 1e-3)})
    parts = [rows for epoch in range(3) for rows in Batches(LENGTHS, LENGTHS, 6).epoch(epoch)][:accumulate]
    assert len({int(LENGTHS[rows].sum()) for rows in parts}) > 1  # so that a mean of means would be another one
    model = Line()
    (sum(squares(model, rows) for rows in parts) / sum(int(LENGTHS[rows].sum()) for rows in parts)).backward()
    record = run(it)[0]
    assert record["tokens"] == sum(int(LENGTHS[rows].sum()) for rows in parts)
    assert record["grad_norm"] == pytest.approx(
        math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    )
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for gradient, first in zip(
        (p.grad for p in model.parameters()), (it.update.optimizer.state[p] for p in it.model.parameters())
    ):
        torch.testing.assert_close(first["exp_avg"], 0.1 * gradient)


def test_each_micro_batch_has_random_numbers_of_its_own(folder) -> None:
    drawn: list[float] = []

    def watched(model: nn.Module, rows: np.ndarray) -> Tensor:
        drawn.append(float(torch.rand(())))
        return squares(model, rows)

    run(trainer(folder, {"steps": 4, "accumulate": 3}, loss=watched))
    assert len(drawn) == len(set(drawn)) == 12


def test_observers_see_every_update_and_every_evaluation(folder) -> None:
    steps: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    observers = {"on_step": (steps.append,), "on_eval": (evaluations.append,)}
    it = trainer(folder, evaluate=lambda: {"bleu": 1.0, "loss": 0.5}, **observers)
    records = [record for record in run(it) if "loss" in record]
    assert [{**record, "seconds": None} for record in steps] == [{**record, "seconds": None} for record in records]
    assert [(record["step"], record["bleu"], record["loss"]) for record in evaluations] == [
        (step, 1.0, 0.5) for step in (2, 4, 6, 8)
    ]


def test_what_an_observer_raises_ends_training_before_the_next_step(folder) -> None:
    def refuse(record: dict[str, Any]) -> None:
        if record["step"] == 5:
            raise ZeroDivisionError

    it = trainer(folder, on_step=(refuse,))
    with pytest.raises(ZeroDivisionError):
        run(it)
    assert it.state.step == 5 and steps_of(folder) == [4]


# --- what is not a number


def raises(it: Trainer, name: str) -> TrainingError:
    """The run ends with an error that names the culprit, before an update and after the checkpoints of before."""
    before = {name: tensor.clone() for name, tensor in it.model.state_dict().items()}
    with pytest.raises(TrainingError) as caught:
        run(it)
    assert caught.value.name == name and not math.isfinite(caught.value.value)
    for name, tensor in it.model.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    assert all(p.grad is None for p in it.model.parameters())
    return caught.value


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_weight_that_is_not_finite_is_named(folder, value: float) -> None:
    it = trainer(folder)
    with torch.no_grad():
        it.model.slope.weight[0, 1] = value
    raises(it, "slope.weight")


def test_of_many_weights_that_are_not_finite_three_are_named(folder) -> None:
    class Many(Line):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ParameterList(torch.full((1,), math.nan) for _ in range(5))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + sum(self.parts)

    error = raises(trainer(folder, model=Many()), "parts.0")
    assert str(error) == (
        "the loss is nan at step 1: these weights aren't finite: parts.0, parts.1, parts.2 and 2 more; "
        "nothing was updated, and the last checkpoint is kept\n"
        "  try a lower `train.lr`, a longer `train.warmup`, or `train.precision=fp32`"
    )


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

    raises(trainer(folder, model=Deep()), "second.0")


def test_a_loss_that_is_not_finite_although_every_part_is_is_called_so(folder) -> None:
    def worst(model: nn.Module, rows: np.ndarray) -> Tensor:
        return squares(model, rows) / 0

    raises(trainer(folder, loss=worst), "loss")


def test_a_gradient_that_is_not_finite_is_named_by_its_weights(folder) -> None:
    def steep(model: nn.Module, rows: np.ndarray) -> Tensor:
        return model.shift.square().sqrt().sum() + model(X[rows]).sum()  # the slope of sqrt at 0 is infinite

    raises(trainer(folder, loss=steep), "shift")


def test_a_norm_that_is_too_large_although_each_gradient_is_finite_is_called_so(folder) -> None:
    def large(model: nn.Module, rows: np.ndarray) -> Tensor:
        return (model.slope.weight * 3e38).sum()

    raises(trainer(folder, loss=large), "gradient norm")


def test_the_first_bad_micro_batch_is_found_although_the_losses_are_read_together(folder) -> None:
    calls: list[int] = []

    def third(model: nn.Module, rows: np.ndarray) -> Tensor:
        calls.append(len(calls))
        return squares(model, rows) * (math.nan if len(calls) in (3, 7) else 1)

    raises(trainer(folder, {"accumulate": 4}, loss=third), "loss")
    assert len(calls) == 4 + 3  # all of the step, and again up to the one whose loss is bad


def test_a_step_reads_from_the_device_once_whatever_it_accumulates(folder, monkeypatch) -> None:
    reads: list[str] = []
    for name in ("item", "tolist", "__float__", "__bool__"):
        real = getattr(Tensor, name)
        monkeypatch.setattr(Tensor, name, lambda *it, real=real, name=name: (reads.append(name), real(*it))[1])
    it = trainer(folder, {"accumulate": 3})
    batches = Batches(LENGTHS, LENGTHS, 6).epoch(0)
    with it.run.log:
        it.update([batches[0]] * 3, 10, step=1, lr=0.1)
    assert reads == ["tolist"]


def test_what_was_saved_before_a_loss_that_is_not_finite_is_kept(folder) -> None:
    def breaks(model: nn.Module, rows: np.ndarray) -> Tensor:
        return squares(model, rows) * (math.nan if it.state.step == 7 else 1)

    it = trainer(folder, {"save_every": 3}, loss=breaks)
    with pytest.raises(TrainingError):
        run(it)
    assert it.state.step == 7 and steps_of(folder) == [3, 6]
    again = trainer(folder, {"save_every": 3}, checkpoint=folder.latest_checkpoint())
    assert again.state.step == 6
    run(again)
    assert again.state.step == 8


NO_MEMORY = [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory"), MemoryError()]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda it: type(it).__name__)
def test_a_step_without_memory_saves_the_step_before_and_the_run_continues_as_if_nothing_had_happened(
    folder, tmp_path: Path, error: Exception
) -> None:
    def breaks(model: nn.Module, rows: np.ndarray) -> Tensor:
        if it.state.step == 6 and calls.append(1) is None and len(calls) == 2:
            raise error
        return squares(model, rows)

    calls: list[int] = []
    changes = {"save_every": 4, "accumulate": 2, "micro_batches": 3}
    it = trainer(folder, changes, loss=breaks)
    with pytest.raises(TrainingError) as caught:
        run(it)
    assert (caught.value.name, caught.value.value) == ("train.micro_batches", 3)
    assert "checkpoint of step 5 is saved" in caught.value.what
    assert "`train.micro_batches=6` or `train.activation_checkpointing=true`" in caught.value.fix
    assert steps_of(folder) == [4, 5]
    again = trainer(folder, changes, checkpoint=folder.latest_checkpoint())
    run(again)
    with RunFolder.create(tmp_path / "other") as other:
        other.write_files(model_files(config={}, tokenizer="{}"))
        run(trainer(other, changes))
        assert torch.equal(written(folder)["slope.weight"], written(other)["slope.weight"])


def test_the_first_step_without_memory_has_nothing_to_save(folder) -> None:
    def breaks(model: nn.Module, rows: np.ndarray) -> Tensor:
        raise MemoryError

    with pytest.raises(TrainingError) as caught:
        run(trainer(folder, {"activation_checkpointing": True}, loss=breaks))
    assert "nothing is saved yet" in caught.value.what and "activation" not in caught.value.fix


def test_other_errors_of_torch_are_passed_on(folder) -> None:
    def breaks(model: nn.Module, rows: np.ndarray) -> Tensor:
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run(trainer(folder, loss=breaks))


@pytest.mark.parametrize(("changes", "saved"), [({"save_every": 3}, [3]), ({"save_every": 2, "eval_every": 5}, [2, 4])])
def test_weights_that_an_update_made_infinite_are_neither_scored_nor_saved(folder, changes, saved, monkeypatch) -> None:
    it = trainer(folder, changes, evaluate=lambda: {"bleu": 1.0})
    update = it.update.optimizer.step

    def overflow() -> None:
        update()
        if it.state.step == saved[-1] + 1:
            it.model.slope.weight.data.fill_(math.inf)

    monkeypatch.setattr(it.update.optimizer, "step", overflow)
    monkeypatch.setattr(it.update, "_loss", lambda rows: it.model.shift.square().sum())  # it does not notice
    with pytest.raises(TrainingError) as caught:
        run(it)
    assert caught.value.name == "slope.weight" and it.state.step == saved[-1] + 1
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

    it = trainer(folder, {"best": best, "schedule": "constant"}, evaluate=evaluate)
    records = [record for record in run(it) if f"valid_{best}" in record]
    assert [record["step"] for record in records] == list(at_step) == [2, 4, 6, 8]
    np.testing.assert_array_equal([record[f"valid_{best}"] for record in records], scores)
    assert it.state.best_step == chosen
    assert torch.equal(written(folder)["slope.weight"], at_step[chosen])
    assert len({tuple(weights.flatten().tolist()) for weights in at_step.values()}) == 4


def test_without_an_evaluation_the_folder_has_the_newest_weights(folder) -> None:
    it = trainer(folder, {"eval_every": 3})
    assert not any(name.startswith("valid_") for record in run(it) for name in record)
    assert it.state.best_step == 8 and it.state.best is None
    assert torch.equal(written(folder)["slope.weight"], it.model.slope.weight)


@pytest.mark.parametrize(("eval_every", "expected"), [(3, [3, 6, 8]), (4, [4, 8]), (100, [8])])
def test_the_last_step_is_evaluated_once(folder, eval_every: int, expected: list[int]) -> None:
    steps: list[int] = []

    def evaluate() -> dict[str, float]:
        steps.append(it.state.step)
        return {"bleu": 1.0}

    it = trainer(folder, {"eval_every": eval_every}, evaluate=evaluate)
    run(it)
    assert steps == expected


@pytest.mark.parametrize(
    ("patience", "scores", "last"),
    [
        (1, [1.0, 2.0, 1.5, 3.0], 6),
        (2, [1.0, 0.5, 0.7, 3.0], 6),
        (2, [3.0, 1.0, 3.0, 1.0], 6),
        (1, [1.0, 1.0, 1.0, 2.0], 4),
        (3, [9.0, 1, 1, 1], 8),
    ],
)
def test_training_ends_where_patience_does(folder, patience: int, scores: list[float], last: int) -> None:
    given = iter(scores)
    it = trainer(folder, {"patience": patience, "save_every": 3}, evaluate=lambda: {"bleu": next(given)})
    run(it)
    assert it.state.step == last
    assert steps_of(folder)[-1] == last
    again = trainer(
        folder,
        {"patience": patience, "save_every": 3},
        evaluate=lambda: pytest.fail("it was evaluated"),
        checkpoint=folder.latest_checkpoint(),
    )
    run(again)  # what ended so stays so
    assert again.state.step == last


class Killed(BaseException):
    """What ends a run where it stands: nothing is saved any more."""


def killed_at(step: int | None) -> dict[str, tuple]:
    """What ends a run behind a step."""

    def kill(record: dict[str, Any]) -> None:
        if record["step"] == step:
            raise Killed

    return {"on_step": (kill,)}


def test_weights_that_a_killed_run_kept_after_its_last_checkpoint_are_known_to_the_next(folder) -> None:
    """Though a step that is done again may score otherwise, as on a GPU, or may not come again, as with a budget."""
    scores = {2: 1.0, 4: 2.0, 6: 5.0}
    it = trainer(folder, evaluate=lambda: {"bleu": scores[it.state.step]}, **killed_at(7))
    with pytest.raises(Killed):
        run(it)
    kept = written(folder)
    again = trainer(folder, evaluate=lambda: {"bleu": 3.0}, checkpoint=folder.latest_checkpoint())
    assert again.state.step == 4
    run(again)
    assert torch.equal(written(folder)["slope.weight"], kept["slope.weight"])
    for state in (asdict(again.state), folder.latest_checkpoint().state):
        assert (state["best"], state["best_step"]) == (5.0, 6)


@pytest.mark.parametrize(
    "scores",
    [
        [1.0, 3.0, 2.0, 2.0, 3.0, 4.0, 3.0, 1.0],
        [2.0, 1.0, 1.5, 2.0, 1.0, 2.0, 3.0, 3.0],
        [math.nan, math.nan, 1.0, 0.5, 1.0, math.nan, 1.0, 0.5],
        [0.0] * 8,
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("patience", [0, 3])
def test_wherever_a_run_was_killed_it_ends_with_the_same_kept_weights(
    folder, tmp_path: Path, scores: list[float], patience: int
) -> None:
    def begun(folder: RunFolder, kill: int | None = None) -> Trainer:
        def evaluate() -> dict[str, float]:
            return {"bleu": scores[it.state.step - 1]}

        changes, score = {"patience": patience, "eval_every": 1}, evaluate if scores else None
        it = trainer(folder, changes, checkpoint=folder.latest_checkpoint(), evaluate=score, **killed_at(kill))
        return it

    def ended(it: Trainer, folder: RunFolder) -> tuple[dict[str, Any], list[float], list[tuple]]:
        records = [(record["step"], str(record.get("valid_bleu"))) for record in run(it)]
        return {**asdict(it.state), "seconds": 0}, written(folder)["slope.weight"].flatten().tolist(), records

    expected = ended(begun(folder), folder)
    last = expected[0]["step"]
    for step in range(1, last + 1):
        with RunFolder.create(tmp_path / f"killed at {step} and {last}") as other:
            for kill in (step, last):
                if not other.latest_checkpoint():
                    other.begin(model_files(config={}))
                with pytest.raises(Killed):
                    run(begun(other, kill))
            assert ended(begun(other), other) == expected


@pytest.mark.parametrize("best", ["chrf", "exact_match", "token_accuracy"])
def test_the_kept_weights_are_chosen_by_the_metric_that_is_asked_for(folder, best: str) -> None:
    values = iter([1.0, 3.0, 2.0, 2.0])
    it = trainer(folder, {"best": best}, evaluate=lambda: {"bleu": -it.state.step, best: next(values)})
    run(it)
    assert it.state.best_step == 4 and it.state.kept_weights == "step 4"


# --- means of weights


@pytest.mark.parametrize(("scores", "is_kept"), [([1.0, 2.0, 2.5], True), ([1.0, 3.0, 2.5], False)])
def test_the_mean_of_the_newest_checkpoints_is_kept_where_it_is_better(
    folder, monkeypatch, scores, is_kept: bool
) -> None:
    monkeypatch.undo()
    given = iter(scores)
    it = trainer(folder, {"average": 3, "save_every": 2, "eval_every": 4}, evaluate=lambda: {"bleu": next(given)})
    run(it)
    assert steps_of(folder) == [4, 6, 8]
    each = [read_checkpoint(folder.path / "checkpoints" / f"step-{step:08d}").tensors["model"] for step in (4, 6, 8)]
    mean = sum(weights["slope.weight"].double() for weights in each).div(3).float()
    assert torch.equal(written(folder)["slope.weight"], mean if is_kept else each[2]["slope.weight"])
    assert it.state.kept_weights == ("mean of 3 checkpoints" if is_kept else "step 8")


def test_the_scores_of_the_mean_are_in_the_metrics_once(folder) -> None:
    values = {"average": 2, "eval_every": 8}
    it = trainer(folder, values, evaluate=lambda: {"bleu": 3.0})
    run(it)
    again = trainer(
        folder, values, evaluate=lambda: {"bleu": 3.0}, checkpoint=folder.latest_checkpoint()
    )  # killed before it was complete
    run(again)
    scored = [record for record in read_metrics(folder.path / "metrics.jsonl") if "valid_bleu" in record]
    assert [(record["step"], record.get("averaged")) for record in scored] == [(8, None), (8, 2)]


def test_a_mean_that_a_killed_run_kept_stays_and_training_has_ended(folder) -> None:
    changes, given = {"patience": 1, "average": 2, "save_every": 2}, iter([2.0, 1.0, 3.0])
    run(trainer(folder, changes, evaluate=lambda: {"bleu": next(given)}))
    kept = written(folder)
    again = trainer(
        folder, changes, evaluate=lambda: {"bleu": 2.5}, checkpoint=folder.latest_checkpoint()
    )  # killed before it was complete
    run(again)
    assert again.state.step == 4
    assert torch.equal(written(folder)["slope.weight"], kept["slope.weight"])
    assert (again.state.best, again.state.kept_weights) == (3.0, "mean of 2 checkpoints")


def test_no_step_is_missing_in_the_loss_of_a_run_that_ends_early(folder) -> None:
    given = iter([1.0, 0.5])
    it = trainer(folder, {"patience": 1, "log_every": 3, "save_every": 8}, evaluate=lambda: {"bleu": next(given)})
    run(it)
    losses = [record for record in read_metrics(folder.path / "metrics.jsonl") if "loss" in record]
    assert [record["step"] for record in losses] == [3, 4] and losses[-1]["seconds"] >= losses[0]["seconds"]


def test_the_mean_is_over_as_many_checkpoints_as_there_are(folder) -> None:
    it = trainer(folder, {"average": 9, "save_every": 4})
    run(it)
    assert it.state.kept_weights == "mean of 2 checkpoints"


def test_the_mean_of_one_checkpoint_is_the_last_step_and_not_tried(folder) -> None:
    it = trainer(folder, {"average": 9, "save_every": 8, "eval_every": 8}, evaluate=lambda: {"bleu": 3.0})
    run(it)
    assert it.state.kept_weights == "step 8"
    assert not [record for record in read_metrics(folder.path / "metrics.jsonl") if "averaged" in record]


def test_the_moving_average_is_scored_and_kept_and_training_goes_on_from_the_weights_themselves(folder) -> None:
    plain = trainer(folder)
    run(plain)
    scored: list[Tensor] = []

    def evaluate() -> dict[str, float]:
        scored.append(it.model.slope.weight.detach().clone())
        return {"bleu": float(len(scored))}

    with RunFolder.create(folder.path.parent / "other") as other:
        it = trainer(other, {"average": 0.5}, evaluate=evaluate)
        run(it)
        assert torch.equal(it.model.slope.weight, plain.model.slope.weight)
        assert torch.equal(written(other)["slope.weight"], scored[-1])
        assert not torch.equal(scored[-1], it.model.slope.weight)


# --- checkpoints


@pytest.mark.parametrize(("save_every", "steps"), [(1, list(range(1, 9))), (3, [3, 6, 8]), (4, [4, 8]), (50, [8])])
def test_checkpoints_are_saved_at_intervals_and_at_the_end(folder, save_every: int, steps: list[int]) -> None:
    run(trainer(folder, {"save_every": save_every}))
    assert steps_of(folder) == steps


def test_the_newest_checkpoints_are_kept(folder, monkeypatch) -> None:
    monkeypatch.undo()
    run(trainer(folder, {"save_every": 1}))
    assert steps_of(folder) == [7, 8]


@pytest.mark.parametrize("step", range(1, 8))
@pytest.mark.parametrize("changes", [{}, {"average": 0.9}, {"accumulate": 2}])
def test_from_any_checkpoint_a_run_goes_on_bit_for_bit(folder, tmp_path: Path, step: int, changes: dict) -> None:
    changes = {"save_every": 1, **changes}
    expected = trainer(folder, changes, model=Line(dropout=0.5))
    records = run(expected)
    path = folder.path / "checkpoints" / f"step-{step:08d}"
    with RunFolder.create(tmp_path / "again") as other:
        other.write_files(model_files(config={}))
        (other.path / "checkpoints").mkdir()
        (folder.path / "metrics.jsonl").rename(other.path / "metrics.jsonl")
        path.rename(other.path / "checkpoints" / path.name)
        again = trainer(other, changes, model=Line(dropout=0.5), checkpoint=other.latest_checkpoint())
        assert again.state.step == step
        found = run(again)
    assert all(torch.equal(a, b) for a, b in zip(expected.model.parameters(), again.model.parameters()))
    assert written(other).keys() == written(folder).keys()
    assert all(torch.equal(tensor, written(folder)[name]) for name, tensor in written(other).items())
    for record in (*records, *found):
        record.pop("seconds", None)
    assert found == records


def test_a_checkpoint_of_other_data_is_rejected(folder) -> None:
    it = trainer(folder)
    run(it)
    checkpoint = folder.latest_checkpoint()
    it.objective.check_data(checkpoint)
    with pytest.raises(TrainingError) as caught:
        replace(it.objective, digests={**DIGESTS, "the validation data": "c"}).check_data(checkpoint)
    assert (caught.value.name, caught.value.value) == ("the validation data", "c")


# --- several processes


class Half(Processes):
    """One of two processes, which hears nothing from the other."""

    def __init__(self, rank: int) -> None:
        super().__init__(None, rank, 2)

    def shared(self, model: nn.Module, loss: Callable) -> Callable:
        return lambda rows: loss(model, rows)

    def sums(self, values: list[float]) -> list[float]:
        return values

    def gather(self, value: object) -> list:
        return [value]


def test_the_processes_of_a_run_share_each_batch_and_draw_their_own_numbers(folder) -> None:
    seen: dict[int, list[tuple[list[int], float]]] = {0: [], 1: []}

    def watched(rank: int) -> Callable:
        def loss(model: nn.Module, rows: np.ndarray) -> Tensor:
            seen[rank].append((rows.tolist(), float(torch.rand(()))))
            return squares(model, rows)

        return loss

    for rank in seen:
        it = trainer(folder, {"steps": 1, "accumulate": 2}, loss=watched(rank), processes=Half(rank))
        tokens = run(it)[0]["tokens"]
    order = [rows for epoch in range(2) for rows in Batches(LENGTHS, LENGTHS, 6).epoch(epoch)][:2]
    assert tokens == sum(int(LENGTHS[rows].sum()) for rows in order)
    for place, rows in enumerate(order):
        parts = [seen[rank][place][0] for rank in seen]
        assert parts[0] == rows[::2].tolist()
        assert parts[1] == (rows[1::2] if len(rows) > 1 else rows).tolist()  # at least one, which may not count
    assert len({number for each in seen.values() for _, number in each}) == 4
